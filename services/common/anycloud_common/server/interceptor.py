"""The one interceptor: every call of our own services passes it, in this order: request id, caller, client version,
decode, handler, encode. Health and reflection are open and pass untouched."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc

from anycloud_common import calls
from anycloud_common.clock import Clock
from anycloud_common.errors import Problem
from anycloud_common.server import problems
from anycloud_common.server.forms import Form, Native
from anycloud_common.server.gate import REST_MARK, Gate
from anycloud_common.server.policy import Policy
from anycloud_common.telemetry import metrics

Handler = Any  # grpc.RpcMethodHandler; its stubs know neither raw bytes nor the fields read here


@dataclass(frozen=True)
class _Served:
    """One method in one form."""

    policy: Policy
    form: Form
    handler: Handler


class CallInterceptor(grpc.aio.ServerInterceptor):
    """`policies` and `rest` (forms of methods that have an HTTP rule) are by gRPC path, and filled before the start."""

    def __init__(self, gate: Gate, clock: Clock) -> None:
        self.policies: dict[str, Policy] = {}
        self.rest: dict[str, Form] = {}
        self._gate = gate
        self._clock = clock
        self._wrapped: dict[tuple[str, bool], Handler] = {}
        self._streams: set[asyncio.Task[Any]] = set()
        self._ending = False

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Handler]], details: Any) -> Handler:
        policy = self.policies.get(details.method)
        if policy is None:
            return await continuation(details)
        rest = any(key == REST_MARK for key, _ in details.invocation_metadata)
        wrapped = self._wrapped.get((policy.path, rest))
        if wrapped is None:
            handler = await continuation(details)
            form = self.rest[policy.path] if rest else Native(handler)
            wrapped = self._wrapped[policy.path, rest] = self._wrap(_Served(policy, form, handler))
        return wrapped

    def end_streams(self) -> None:
        """Ends every stream that is still open with the method's "unavailable" error."""
        self._ending = True
        for task in self._streams:
            task.cancel()

    def _wrap(self, served: _Served) -> Handler:
        handler = served.handler
        if handler.response_streaming:
            if handler.request_streaming:
                return grpc.stream_stream_rpc_method_handler(self._streaming(served, handler.stream_stream))
            return grpc.unary_stream_rpc_method_handler(self._streaming(served, handler.unary_stream))
        if handler.request_streaming:
            return grpc.stream_unary_rpc_method_handler(self._unary(served, handler.stream_unary))
        return grpc.unary_unary_rpc_method_handler(self._unary(served, handler.unary_unary))

    def _unary(self, served: _Served, run: Any) -> Any:
        async def call(raw: Any, context: Any) -> bytes:
            with _Measured(served, self._clock) as measured:
                try:
                    answer = served.form.encode(await run(await self._enter(served, raw, context), context))
                    measured.code = "OK"
                    return answer
                except Exception as error:
                    problem = await self._problem(error, served.policy, context)
                    measured.code = problem.code
                    return await served.form.refuse(context, problem, sent=False)

        return call

    def _streaming(self, served: _Served, run: Any) -> Any:
        async def call(raw: Any, context: Any) -> None:
            with _Measured(served, self._clock) as measured, self._listed():
                sent = False
                try:
                    request = await self._enter(served, raw, context)
                    async with contextlib.aclosing(run(request, context)) as messages:
                        async for message in messages:
                            await context.write(served.form.encode(message))
                            sent = True
                    measured.code = "OK"
                    return
                except asyncio.CancelledError:
                    if not self._ending:
                        raise
                    problem = problems.restarting(served.policy)
                except Exception as error:
                    problem = await self._problem(error, served.policy, context)
                measured.code = problem.code
                await context.write(await served.form.refuse(context, problem, sent))

        return call

    async def _enter(self, served: _Served, raw: Any, context: Any) -> Any:
        """The decoded request, once the caller is let in."""
        metadata = text_metadata(context)
        call = self._gate.read(served.policy, metadata)
        calls.enter(call)
        principal = await self._gate.principal(served.policy, call, metadata)
        if principal is not None:
            calls.enter(calls.with_principal(call, principal))
        if served.handler.request_streaming:
            return _decoded(raw, served.form)
        return served.form.decode(raw)

    async def _problem(self, error: Exception, policy: Policy, context: Any) -> Problem:
        if isinstance(error, grpc.aio.AbortError):  # the handler has ended the call itself
            raise error
        problem = problems.problem_of(error, policy)
        if problem.http == 401:
            await self._gate.refused(policy, text_metadata(context), context.peer())
        return problem

    @contextlib.contextmanager
    def _listed(self) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            yield
        finally:
            self._streams.discard(task)


class _Measured:
    """Counts a call and its time. A call that ends without a code was cancelled, or ended by its handler itself."""

    def __init__(self, served: _Served, clock: Clock) -> None:
        self.code = "CANCELLED"
        self._served = served
        self._clock = clock

    def __enter__(self) -> _Measured:
        self._began = self._clock.monotonic()
        metrics.IN_FLIGHT.labels(self._served.policy.path).inc()
        return self

    def __exit__(self, *_: object) -> None:
        path = self._served.policy.path
        metrics.IN_FLIGHT.labels(path).dec()
        metrics.REQUESTS.labels(path, self._served.form.name, self.code).inc()
        metrics.LATENCY.labels(path).observe(self._clock.monotonic() - self._began)


async def _decoded(raw: AsyncIterator[bytes], form: Form) -> AsyncIterator[Any]:
    async for message in raw:
        yield form.decode(message)


def text_metadata(context: Any) -> dict[str, str]:
    """The call's text headers. One that came twice is joined by a comma, so that a second bearer never counts alone."""
    headers: dict[str, str] = {}
    for key, value in context.invocation_metadata() or ():
        if isinstance(value, str):
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers
