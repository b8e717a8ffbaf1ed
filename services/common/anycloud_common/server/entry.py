"""Where every call of our own services enters, in this order: request id, caller, client version, decode, handler,
encode. Each method's handler is wrapped once, when its servicer is added: an interceptor of grpc would cost every call
another turn of the event loop. Health and reflection are added without it, so they are open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc

from anycloud_common import calls
from anycloud_common.clock import Clock
from anycloud_common.errors import Problem
from anycloud_common.rest import Invalid
from anycloud_common.server import problems
from anycloud_common.server.forms import Form
from anycloud_common.server.gate import REST_MARK, Gate, Metadata
from anycloud_common.server.policy import Policy
from anycloud_common.telemetry import metrics

Handler = Any  # grpc.RpcMethodHandler; its stubs know neither raw bytes nor the fields read here
Identify = Callable[[Mapping[str, str]], Awaitable[None]]
"""Given the path variables, raises what a handler would that doesn't know its caller."""


@dataclass(frozen=True)
class Method:
    """One method as it is served. `rest` is None for a method without an HTTP rule; `identify` is there for handlers
    that check their caller themselves."""

    policy: Policy
    handler: Handler
    native: Form
    rest: Form | None
    identify: Identify | None = None

    def form(self, metadata: Metadata) -> Form:
        return self.rest if self.rest is not None and REST_MARK in metadata else self.native


class Entry:
    def __init__(self, gate: Gate, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock
        self._streams: set[asyncio.Task[Any]] = set()
        self._ending = False

    def end_streams(self) -> None:
        """Ends every stream that is still open with the method's "unavailable" error."""
        self._ending = True
        for task in self._streams:
            task.cancel()

    def wrap(self, method: Method) -> Handler:
        """A handler that takes and gives bytes."""
        handler = method.handler
        if handler.response_streaming:
            if handler.request_streaming:
                return grpc.stream_stream_rpc_method_handler(self._streaming(method, handler.stream_stream))
            return grpc.unary_stream_rpc_method_handler(self._streaming(method, handler.unary_stream))
        if handler.request_streaming:
            return grpc.stream_unary_rpc_method_handler(self._unary(method, handler.stream_unary))
        return grpc.unary_unary_rpc_method_handler(self._unary(method, handler.unary_unary))

    def _unary(self, method: Method, run: Any) -> Any:
        meter = metrics.Meter(method.policy.path)

        async def call(raw: Any, context: Any) -> bytes:
            metadata = text_metadata(context)
            form = method.form(metadata)
            with _Measured(meter, form, self._clock) as measured:
                try:
                    await self._enter(method.policy, metadata)
                    try:
                        request = _decoded(method.handler, form, raw)
                    except Invalid:
                        if method.identify is not None:  # a stranger isn't told what is wrong with a request
                            await method.identify(form.variables(raw))
                        raise
                    message = await run(request, context)
                    answer = form.encode(message, metadata.get(REST_MARK, ""))
                    measured.code = "OK"
                    return answer
                except Exception as error:
                    problem = await self._problem(error, method.policy, metadata, context)
                    measured.code = problem.code
                    return await form.refuse(context, problem, sent=False)

        return call

    def _streaming(self, method: Method, run: Any) -> Any:
        meter = metrics.Meter(method.policy.path)

        async def call(raw: Any, context: Any) -> None:
            metadata = text_metadata(context)
            form = method.form(metadata)
            with _Measured(meter, form, self._clock) as measured, self._listed():
                sent = False
                try:
                    await self._enter(method.policy, metadata)
                    request = _decoded(method.handler, form, raw)
                    async with contextlib.aclosing(run(request, context)) as messages:
                        async for message in messages:
                            await context.write(form.encode(message, ""))
                            sent = True
                    if not sent and form.nothing is not None:
                        await context.write(form.nothing)
                    measured.code = "OK"
                    return
                except asyncio.CancelledError:
                    if not self._ending:
                        raise
                    problem = problems.restarting(method.policy)
                except Exception as error:
                    problem = await self._problem(error, method.policy, metadata, context)
                measured.code = problem.code
                await context.write(await form.refuse(context, problem, sent))

        return call

    async def _enter(self, policy: Policy, metadata: Metadata) -> None:
        """Makes the call the current one, and returns when its caller is let in."""
        call = self._gate.read(policy, metadata)
        calls.enter(call)
        principal = await self._gate.principal(policy, call, metadata)
        if principal is not None:
            calls.enter(calls.with_principal(call, principal))

    async def _problem(self, error: Exception, policy: Policy, metadata: Metadata, context: Any) -> Problem:
        if isinstance(error, grpc.aio.AbortError):  # the handler has ended the call itself
            raise error
        problem = problems.problem_of(error, policy)
        if problem.http == 401:
            await self._gate.refused(policy, metadata, context.peer())
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

    def __init__(self, meter: metrics.Meter, form: Form, clock: Clock) -> None:
        self.code = "CANCELLED"
        self._meter = meter
        self._form = form.name
        self._clock = clock

    def __enter__(self) -> _Measured:
        self._began = self._clock.monotonic()
        self._meter.in_flight.inc()
        return self

    def __exit__(self, *_: object) -> None:
        self._meter.in_flight.dec()
        self._meter.requests(self._form, self.code).inc()
        self._meter.latency.observe(self._clock.monotonic() - self._began)


def _decoded(handler: Handler, form: Form, raw: Any) -> Any:
    return _messages(raw, form) if handler.request_streaming else form.decode(raw)


async def _messages(raw: AsyncIterator[bytes], form: Form) -> AsyncIterator[Any]:
    async for message in raw:
        yield form.decode(message)


def text_metadata(context: Any) -> dict[str, str]:
    """The call's text headers. One that came twice is joined by a comma, so that a second bearer never counts alone."""
    headers: dict[str, str] = {}
    for key, value in context.invocation_metadata() or ():
        if isinstance(value, str):
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers
