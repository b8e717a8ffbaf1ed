"""Sealed values open with their key, in their place, and nowhere else."""

import multiprocessing
import stat
from pathlib import Path

import pytest
from anycloud_common.cipher import Cipher, CipherError
from hypothesis import given
from hypothesis import strategies as st

SECRET = b"correct horse battery staple"
PLACE = ("deployment_secret", "data", "sec-1")


@pytest.fixture
def cipher(tmp_path: Path) -> Cipher:
    return Cipher.load(tmp_path / "cipher.key")


def test_a_sealed_value_opens_in_its_place(cipher: Cipher) -> None:
    sealed = cipher.seal(SECRET, *PLACE)
    assert SECRET not in sealed
    assert sealed.startswith(cipher.key_id)
    assert cipher.open(sealed, *PLACE) == SECRET


def test_sealing_twice_gives_different_bytes(cipher: Cipher) -> None:
    assert cipher.seal(SECRET, *PLACE) != cipher.seal(SECRET, *PLACE)


@pytest.mark.parametrize(
    "place",
    [
        ("deployment_secret", "data", "sec-2"),
        ("deployment_secret", "other", "sec-1"),
        ("cluster_credential", "data", "sec-1"),
        ("deployment_secret\0data", "sec-1", ""),
    ],
)
def test_a_value_moved_to_another_place_does_not_open(cipher: Cipher, place: tuple[str, str, str]) -> None:
    with pytest.raises(CipherError) as caught:
        cipher.open(cipher.seal(SECRET, *PLACE), *place)
    assert "horse" not in str(caught.value)


def test_another_installations_key_is_told_apart(cipher: Cipher, tmp_path: Path) -> None:
    other = Cipher.load(tmp_path / "other.key")
    with pytest.raises(CipherError, match=f"sealed with key {cipher.key_id.hex()}"):
        other.open(cipher.seal(SECRET, *PLACE), *PLACE)


@given(st.data())
def test_any_changed_bit_is_noticed(data: st.DataObject) -> None:
    cipher = _example_cipher()
    sealed = bytearray(cipher.seal(SECRET, *PLACE))
    position = data.draw(st.integers(0, len(sealed) - 1))
    sealed[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CipherError):
        cipher.open(bytes(sealed), *PLACE)


@given(st.binary(max_size=40))
def test_bytes_that_were_never_sealed_do_not_open(junk: bytes) -> None:
    with pytest.raises(CipherError):
        _example_cipher().open(junk, *PLACE)


def _example_cipher() -> Cipher:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return Cipher(b"\1\2\3\4", AESGCM(bytes(range(32))))


def test_the_key_file_is_private_and_reused(tmp_path: Path) -> None:
    path = tmp_path / "cipher.key"
    sealed = Cipher.load(path).seal(SECRET, *PLACE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Cipher.load(path).open(sealed, *PLACE) == SECRET
    assert [entry.name for entry in tmp_path.iterdir()] == ["cipher.key"]


def test_processes_that_create_the_key_at_once_agree_on_one(tmp_path: Path) -> None:
    path = tmp_path / "cipher.key"
    with multiprocessing.get_context("fork").Pool(4) as pool:
        ids = pool.map(_load_key_id, [path] * 8)
    assert len(set(ids)) == 1


def _load_key_id(path: Path) -> bytes:
    return Cipher.load(path).key_id


@pytest.mark.parametrize("content", ["", "zz\n", "01020304 AAAA\n", "01020304 " + "A" * 43 + "=\nmore\n"])
def test_a_damaged_key_file_is_refused_and_kept(tmp_path: Path, content: str) -> None:
    path = tmp_path / "cipher.key"
    path.write_text(content)
    with pytest.raises(CipherError, match="not a key file"):
        Cipher.load(path)
    assert path.read_text() == content


def test_a_representation_shows_no_key(cipher: Cipher) -> None:
    assert "AESGCM" not in repr(cipher)
