"""Messages of workers, read and written."""

from __future__ import annotations

import re

from anycloudapi.deployment.v1 import jobs_pb2 as pb

from anycloud_deployment.domain.jobs import Candidate, Outcome
from anycloud_deployment.domain.refusal import Refusal

INVALID = "INVALID_REQUEST"

_UUID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
_MESSAGE_CHARACTERS = 4096
_OUTCOMES: dict[int, Outcome] = {
    pb.OutcomeReport.OUTCOME_COMPLETED: "completed",
    pb.OutcomeReport.OUTCOME_ERRORED: "errored",
    pb.OutcomeReport.OUTCOME_INVALID: "invalid",
    pb.OutcomeReport.OUTCOME_RETRYABLE: "retryable",
}


def candidate_message(candidate: Candidate) -> pb.JobCandidate:
    return pb.JobCandidate(
        job_id=candidate.job_id,
        submission_revision=candidate.submission_revision,
        previous_execution_id=candidate.previous_execution_id,
    )


def execution_id(text: str | None, name: str = "executionId") -> str:
    """The UUID in its usual spelling. Raises Refusal INVALID_REQUEST for any other text."""
    if text is None or not _UUID.fullmatch(text):
        raise Refusal(INVALID, f"{name}: must be a UUID, the execution's id")
    digits = text.replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def previous_of(claim: pb.JobClaim | pb.WorkerMessage.Claim) -> str | None:
    """The execution that a candidate had before. Raises Refusal INVALID_REQUEST."""
    if not claim.HasField("previous_execution_id"):
        return None
    return execution_id(claim.previous_execution_id, "previousExecutionId")


def outcome_of(report: pb.OutcomeReport) -> tuple[Outcome, str | None]:
    """Outcome and message. Raises Refusal INVALID_REQUEST."""
    outcome = _OUTCOMES.get(report.outcome)
    if outcome is None:
        raise Refusal(INVALID, "outcome: must be completed, errored, invalid or retryable")
    message = report.message if report.HasField("message") else None
    if message is not None and not 1 <= len(message) <= _MESSAGE_CHARACTERS:
        raise Refusal(INVALID, f"message: has {len(message)} characters; it must have 1 to {_MESSAGE_CHARACTERS}")
    return outcome, message


def wait_s(wait_ms: int) -> float:
    """Seconds that a call is to be held. Raises Refusal INVALID_REQUEST."""
    if not 0 <= wait_ms <= 20_000:
        raise Refusal(INVALID, f"waitMs: must be 0 to 20000, not {wait_ms}")
    return wait_ms / 1000
