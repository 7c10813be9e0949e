"""A request inside the simulator, and the blocks it may share."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvsched.request import BlockContent, Request, Tokens


@dataclass(slots=True, eq=False)
class Job:
    """A request and what it holds.

    ``credit`` blocks are promised to it, ``own`` pages of them taken; ``borrowed`` pages are
    another's, who pays for them.
    ``computed`` tokens have KV. Once ``goal`` have, each pass gives a token: the goal is the
    prompt, after a preemption with all that had been ``emitted``. ``place`` orders the queue.
    ``names``: contents of its full prompt blocks, if blocks are shared.
    """

    request: Request
    place: tuple[int, int]
    goal: int
    names: list[int] = field(default_factory=list)
    credit: int = 0
    own: int = 0
    borrowed: int = 0
    computed: int = 0
    emitted: int = 0
    preempted: bool = False

    @property
    def id(self) -> str:
        """The request's."""
        return self.request.id

    @property
    def decoding(self) -> bool:
        """Does its next pass take one token and give one?"""
        return self.computed >= self.goal

    def take(self, token: int) -> bool:
        """A sampled token; is it the last?"""
        self.emitted += 1
        stop = self.request.stop
        ends = stop is not None and token == stop.eos_token_id
        return ends or self.emitted >= self.request.max_tokens


class Prefixes:
    """Full prompt blocks that active requests have computed, by content.

    The first holder of a block owns its page and pays the credit; when it leaves, the next one
    takes over both, so no page is ever promised twice.
    """

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.contents: dict[tuple[int, BlockContent], int] = {}
        self.holders: dict[int, list[Job]] = {}

    def enter(self, job: Job) -> None:
        """Name the job's full blocks; equal names mean equal tokens from the first on."""
        size, tokens, parent = self.block_size, Tokens(job.request.prompt), 0
        for start in range(0, tokens.length - size + 1, size):
            key = (parent, tokens.content(start, start + size))
            parent = self.contents.setdefault(key, len(self.contents) + 1)
            job.names.append(parent)

    def hits(self, job: Job) -> int:
        """Leading blocks it would find; at least one token is left to compute."""
        most = (job.goal - 1) // self.block_size
        count = 0
        for name in job.names[:most]:
            if name not in self.holders:
                break
            count += 1
        return count

    def join(self, job: Job, count: int) -> None:
        """It borrows its first ``count`` blocks."""
        for name in job.names[:count]:
            self.holders[name].append(job)
        job.borrowed = count

    def publish(self, job: Job) -> None:
        """Its computed prompt blocks can be found, unless another's equal ones can."""
        for name in job.names[: job.computed // self.block_size]:
            self.holders.setdefault(name, [job])

    def leave(self, job: Job) -> None:
        """It holds nothing any more; a page others hold goes to the next of them."""
        for name in job.names:
            holders = self.holders.get(name, [])
            if job not in holders:
                continue
            owner = holders[0] is job
            holders.remove(job)
            if not holders:
                del self.holders[name]
            elif owner:
                heir = holders[0]
                heir.borrowed, heir.own, heir.credit = (
                    heir.borrowed - 1, heir.own + 1, heir.credit + 1
                )  # fmt: skip
                job.own, job.credit = job.own - 1, job.credit - 1
        job.borrowed = 0
