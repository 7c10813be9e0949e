"""What a notebook shows that the reader can move: `widget(view)` and `predict(question)`."""

from kvsched.widgets.predict import predict
from kvsched.widgets.widget import widget

__all__ = ["predict", "widget"]
