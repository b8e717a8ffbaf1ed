"""The stream of a gRPC worker: claims, outcomes and cleanups up; offers, cancellations and acknowledgements down."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Coroutine
from functools import partial
from typing import Any

from anycloud_common.clock import Clock
from anycloud_common.server.draining import Draining
from anycloudapi.deployment.v1 import jobs_pb2 as pb

from anycloud_deployment.domain.jobs import Candidate
from anycloud_deployment.domain.refusal import Refusal
from anycloud_deployment.live.offers import Offer, Waiter
from anycloud_deployment.rpc.worker_messages import candidate_message, execution_id, outcome_of, previous_of
from anycloud_deployment.rpc.workers import Caller, Workers

_MOST_SLOTS = 1000
_MOST_UNANSWERED = 256
_EXPIRY_MARGIN_S = 60.0
_LONGEST_S = 3000.0
_FOREVER_S = 86_400.0
_TRY_AGAIN = "The API can't take this right now; try again in a moment."

Down = pb.WorkMessage


class WorkStream:
    """One stream of one Pod. Messages are handled side by side; each answer names the message that it is for."""

    def __init__(self, workers: Workers, caller: Caller, draining: Draining, clock: Clock) -> None:
        self._workers = workers
        self._caller = caller
        self._draining = draining
        self._clock = clock
        # What goes down next; None ends the stream, a Refusal ends it with that error.
        self._down: asyncio.Queue[Down | Refusal | None] = asyncio.Queue()
        self._waiter = Waiter(caller.pod_uid, caller.token, partial(workers.review, caller), self._offer)
        self._offers: dict[str, Offer] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._unanswered = asyncio.Semaphore(_MOST_UNANSWERED)

    async def run(self, messages: AsyncIterator[pb.WorkerMessage]) -> AsyncIterator[Down]:
        """What goes down. Raises Refusal WORKLOAD_UNAVAILABLE before the token expires, and when the process ends."""
        self._workers.offers.join(self._caller.deployment_id, self._waiter)
        try:
            self._start(self._end_in_time())
            self._start(self._end_when_draining())
            self._start(self._read(messages))
            for job_id, key in await self._workers.running(self._caller):
                self._watch(job_id, key)
            while (message := await self._down.get()) is not None:
                if isinstance(message, Refusal):
                    raise message
                yield message
        finally:
            self._workers.offers.leave(self._caller.deployment_id, self._waiter)
            for task in list(self._tasks):
                task.cancel()
            for offer in list(self._offers.values()):
                self._workers.offers.withdraw(offer)

    async def _read(self, messages: AsyncIterator[pb.WorkerMessage]) -> None:
        handling: set[asyncio.Task[None]] = set()
        async for message in messages:
            if message.WhichOneof("message") == "ready":
                self._waiter.credit = max(0, min(message.ready.slots, _MOST_SLOTS))
                self._workers.offers.wake(self._caller.deployment_id)
                continue
            await self._unanswered.acquire()
            task = self._start(self._answer(message))
            handling.add(task)
            task.add_done_callback(handling.discard)
        await asyncio.gather(*handling)
        self._down.put_nowait(None)

    async def _answer(self, message: pb.WorkerMessage) -> None:
        try:
            answer = await self._handled(message)
        except Refusal as refusal:
            answer = Down(refused=Down.Refused(code=refusal.code, message=refusal.message))
        except Exception as error:
            if getattr(error, "unavailable", False) is not True:
                raise
            answer = Down(refused=Down.Refused(code="WORKLOAD_UNAVAILABLE", message=_TRY_AGAIN))
        finally:
            self._unanswered.release()
        answer.ref = message.ref
        self._down.put_nowait(answer)

    async def _handled(self, message: pb.WorkerMessage) -> Down:
        caller = await self._workers.admit(self._caller.deployment_id, self._caller.token)
        match message.WhichOneof("message"):
            case "claim":
                return Down(claimed=await self._claim(message.claim))
            case "report":
                report = message.report
                key = execution_id(report.report.execution_id)
                outcome, text = outcome_of(report.report)
                self._unwatch(key)
                await self._workers.report(caller, report.job_id, key, outcome, text)
            case "cleanup":
                key = execution_id(message.cleanup.execution_id)
                self._unwatch(key)
                await self._workers.clean_up(caller, message.cleanup.job_id, key)
            case _:
                raise Refusal("INVALID_REQUEST", "The message says nothing that this API knows.")
        return Down(done=Down.Done())

    async def _claim(self, claim: pb.WorkerMessage.Claim) -> pb.SelectedJob:
        key = execution_id(claim.execution_id)
        wanted = Candidate(claim.job_id, claim.submission_revision, previous_of(claim))
        self._watch(claim.job_id, key, claimed=False)
        try:
            await self._workers.claim(self._caller, wanted, key)
        except BaseException:
            self._unwatch(key)
            raise
        finally:
            self._offers.pop(claim.job_id, None)
        return pb.SelectedJob(job_id=claim.job_id, execution_id=key)

    def _offer(self, offer: Offer) -> None:
        self._offers[offer.candidate.job_id] = offer
        self._down.put_nowait(Down(offer=candidate_message(offer.candidate)))

    def _watch(self, job_id: str, key: str, *, claimed: bool = True) -> None:
        """Tells the worker when an execution is cancelled. Begun before the claim, so that nothing is missed."""
        if key not in self._watches:
            self._watches[key] = self._start(self._tell_cancellation(job_id, key, claimed))

    def _unwatch(self, key: str) -> None:
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.cancel()

    async def _tell_cancellation(self, job_id: str, key: str, claimed: bool) -> None:
        stop = await self._workers.cancelled(self._caller, job_id, key, _FOREVER_S, told_first=not claimed)
        if stop:
            self._down.put_nowait(Down(cancelled=Down.Cancelled(job_id=job_id, execution_id=key)))

    async def _end_in_time(self) -> None:
        await self._clock.sleep(_lifetime_s(self._caller.token, self._clock.now_ms()))
        self._down.put_nowait(
            Refusal("WORKLOAD_UNAVAILABLE", "The token expires soon; open the stream with a new one.")
        )

    async def _end_when_draining(self) -> None:
        await self._draining.wait()
        self._down.put_nowait(Refusal("WORKLOAD_UNAVAILABLE", "The API is restarting; open the stream again."))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        """A part of the stream that fails ends all of it."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            refusal = error if isinstance(error, Refusal) else Refusal("WORKLOAD_UNAVAILABLE", _TRY_AGAIN)
            self._down.put_nowait(refusal)


def _lifetime_s(token: str, now_ms: int) -> float:
    """Seconds until a minute before the token expires, as it says itself; the cluster has judged it already."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        left = float(claims["exp"]) - now_ms / 1000 - _EXPIRY_MARGIN_S
    except (IndexError, ValueError, TypeError, KeyError, binascii.Error):
        return _LONGEST_S
    return max(0.0, min(left, _LONGEST_S))
