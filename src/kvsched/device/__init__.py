"""What runs on a device; torch lives here."""
