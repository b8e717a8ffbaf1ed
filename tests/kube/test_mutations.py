"""That each rule in mutations.py can still be broken; `make test-kube-mutations` breaks them, which takes minutes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.kube.mutations import MUTATIONS, SANDBOX, Mutation, apply


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name.replace(" ", "-"))
def test_a_mutation_still_changes_the_sandbox(mutation: Mutation, tmp_path: Path) -> None:
    folder = Path("anycloud_sandbox") / "kube"
    shutil.copytree(SANDBOX / folder, tmp_path / folder)
    apply(mutation, tmp_path)
    compile((tmp_path / folder / mutation.file).read_text(), mutation.file, "exec")
