"""Who is told of which Job. Offers live in memory and are hints: the claim's transaction alone decides.

A new Job, a free slot or a Pod that became ready begins a round: the oldest Jobs are read, and each is offered to one
waiter whose Pod takes Jobs and has a free slot. For half a second nobody else is offered that Job; then, or as soon as
its claim has ended, another round begins. Every second a round begins anyway, for retries whose pause is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable

from anycloud_common.clock import Clock

from anycloud_deployment.domain.jobs import Candidate
from anycloud_deployment.domain.queue import Queue
from anycloud_deployment.live.pods import Pods
from anycloud_deployment.live.tokens import Bearer
from anycloud_deployment.live.within import within

OFFER_S = 0.5
ROUND_S = 1.0
_MOST_AT_ONCE = 500

Read = Callable[[str, int], Awaitable[Queue]]
Review = Callable[[], Awaitable[Bearer]]

log = logging.getLogger(__name__)


class Waiter:
    """Somebody in a Pod who wants up to `credit` Jobs; `deliver` is told of each, on the event loop.

    `looked` is set when a round has been over this waiter; `error` is why the last one failed.
    """

    def __init__(self, pod_uid: str, token: str, review: Review, deliver: Callable[[Offer], None]) -> None:
        self.pod_uid = pod_uid
        self.token = token
        self.review = review
        self.deliver = deliver
        self.credit = 0
        self.looked = asyncio.Event()
        self.error: Exception | None = None


class Offer:
    """One Job, held for one waiter. `review` is this pickup's own token review, begun as the offer is handed out."""

    def __init__(self, deployment_id: str, candidate: Candidate, waiter: Waiter, until: float) -> None:
        self.deployment_id = deployment_id
        self.candidate = candidate
        self.pod_uid = waiter.pod_uid
        self.token = waiter.token
        self.until = until
        self.reviewed = False  # its review has been taken by a claim
        self.review: asyncio.Future[Bearer] = asyncio.ensure_future(waiter.review())
        self.review.add_done_callback(_retrieve)


class _Board:
    """One Deployment's waiters, longest waiting first, and its offers by Job. `settled` are Jobs whose offers ended
    while the queue was being read: what was read of them may be old."""

    def __init__(self) -> None:
        self.waiters: list[Waiter] = []
        self.offers: dict[str, Offer] = {}
        self.settled: set[str] = set()
        self.due = False
        self.rounds: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        return not self.waiters and not self.offers


class Offers:
    """`read(deployment id, limit)` gives the queue as it is now."""

    def __init__(self, read: Read, pods: Pods, clock: Clock) -> None:
        self._read = read
        self._pods = pods
        self._clock = clock
        self._boards: dict[str, _Board] = {}
        self._expiring: deque[Offer] = deque()  # all last equally long, so they expire in the order of their making
        self._handed_out = asyncio.Event()

    async def run(self) -> None:
        """Expires offers, and begins the rounds that time calls for, until cancelled."""
        async with asyncio.TaskGroup() as running:
            running.create_task(self._expire())
            running.create_task(self._every_second())

    def wake(self, deployment_id: str) -> None:
        """Begins a round, if anybody waits."""
        board = self._boards.get(deployment_id)
        if board is None or not board.waiters:
            return
        board.due = True
        if board.rounds is None:
            board.rounds = asyncio.create_task(self._rounds(deployment_id, board))

    def join(self, deployment_id: str, waiter: Waiter) -> None:
        """From now on, offers are delivered to the waiter, as far as its credit goes."""
        self._boards.setdefault(deployment_id, _Board()).waiters.append(waiter)
        self.wake(deployment_id)

    def leave(self, deployment_id: str, waiter: Waiter) -> None:
        board = self._boards[deployment_id]
        board.waiters.remove(waiter)
        self._drop_if_idle(deployment_id, board)

    async def poll(
        self, deployment_id: str, pod_uid: str, token: str, *, review: Review, wait_s: float
    ) -> Candidate | None:
        """The next Job for a Pod, waited for; None when none came. One round is made even for 0 s."""
        delivered: asyncio.Future[Offer] = asyncio.get_running_loop().create_future()
        waiter = Waiter(pod_uid, token, review, delivered.set_result)
        waiter.credit = 1
        self.join(deployment_id, waiter)
        answered = False
        try:
            if wait_s > 0:
                await within(self._clock, wait_s, asyncio.shield(delivered))
            else:
                await waiter.looked.wait()
            if not delivered.done() and waiter.error is not None:
                raise waiter.error
            answered = True
            return delivered.result().candidate if delivered.done() else None
        finally:
            self.leave(deployment_id, waiter)
            if delivered.done() and not answered:  # the caller is gone: somebody else may have the Job
                self.withdraw(delivered.result())

    def review_of(self, deployment_id: str, job_id: str, pod_uid: str, token: str) -> asyncio.Future[Bearer] | None:
        """The review begun for this pickup, given out once; None when there is none by this token."""
        board = self._boards.get(deployment_id)
        offer = board.offers.get(job_id) if board is not None else None
        if offer is None or offer.reviewed or (offer.pod_uid, offer.token) != (pod_uid, token):
            return None
        offer.reviewed = True
        return offer.review

    def settle(self, deployment_id: str, job_id: str, pod_uid: str) -> None:
        """A claim of this Job by this Pod has ended, one way or the other."""
        board = self._boards.get(deployment_id)
        offer = board.offers.get(job_id) if board is not None else None
        if offer is not None and offer.pod_uid == pod_uid:
            self.withdraw(offer)

    def withdraw(self, offer: Offer) -> None:
        """Gives the Job free for others, unless that has happened already."""
        board = self._boards.get(offer.deployment_id)
        if board is None or board.offers.get(offer.candidate.job_id) is not offer:
            return
        del board.offers[offer.candidate.job_id]
        board.settled.add(offer.candidate.job_id)
        self.wake(offer.deployment_id)
        self._drop_if_idle(offer.deployment_id, board)

    async def _rounds(self, deployment_id: str, board: _Board) -> None:
        try:
            while board.due:
                board.due = False
                await self._round(deployment_id, board)
        finally:
            board.rounds = None

    async def _round(self, deployment_id: str, board: _Board) -> None:
        present = list(board.waiters)
        wanted = sum(waiter.credit for waiter in present) + len(board.offers)
        board.settled.clear()
        error: Exception | None = None
        try:
            self._hand_out(deployment_id, board, await self._read(deployment_id, min(wanted, _MOST_AT_ONCE)))
        except Exception as failure:
            log.warning("a queue can't be read", extra={"deployment": deployment_id, "reason": str(failure)})
            error = failure
        for waiter in present:
            waiter.error = error
            waiter.looked.set()

    def _hand_out(self, deployment_id: str, board: _Board, queue: Queue) -> None:
        """Each waiting Job to the first waiter that may have it."""
        held = Counter(queue.held)
        held.update(offer.pod_uid for offer in board.offers.values())
        for candidate in queue.waiting:
            if candidate.job_id in board.offers or candidate.job_id in board.settled:
                continue
            waiter = next((one for one in board.waiters if self._may_have(one, queue, held)), None)
            if waiter is None:
                return
            held[waiter.pod_uid] += 1
            waiter.credit -= 1
            offer = Offer(deployment_id, candidate, waiter, self._clock.monotonic() + OFFER_S)
            board.offers[candidate.job_id] = offer
            self._expiring.append(offer)
            self._handed_out.set()
            waiter.deliver(offer)

    def _may_have(self, waiter: Waiter, queue: Queue, held: Counter[str]) -> bool:
        if waiter.credit <= 0 or held[waiter.pod_uid] >= queue.slots:
            return False
        worker = self._pods.worker(waiter.pod_uid)
        return worker is not None and worker.generation == queue.generation

    async def _expire(self) -> None:
        while True:
            if not self._expiring:
                self._handed_out.clear()
                await self._handed_out.wait()
            offer = self._expiring.popleft()
            await self._clock.sleep(offer.until - self._clock.monotonic())
            self.withdraw(offer)

    async def _every_second(self) -> None:
        while True:
            await self._clock.sleep(ROUND_S)
            for deployment_id in list(self._boards):
                self.wake(deployment_id)

    def _drop_if_idle(self, deployment_id: str, board: _Board) -> None:
        if board.idle and self._boards.get(deployment_id) is board:
            del self._boards[deployment_id]


def _retrieve(review: asyncio.Future[Bearer]) -> None:
    """A review that no claim came for may fail unheard."""
    if not review.cancelled():
        review.exception()
