"""A data set is fetched whole and checked, or not at all."""

import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from coldstream.errors import InvalidInput, Unavailable
from coldstream.events.fetching import CHUNK, Source, fetched

DATA = b"1\t2\t5\t3\n" * 20_000


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, data in members.items():
            file.writestr(name.replace("__", "/"), data)
    return buffer.getvalue()


class Publisher:
    """A server on this machine. `pages` are what it holds, `cut` how many bytes it sends of each."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.cut: int | None = None
        self.asked: list[str] = []
        publisher = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                publisher.asked.append(self.path)
                page = publisher.pages.get(self.path)
                if page is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page[: publisher.cut])

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/sets"


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    publisher = Publisher()
    thread = Thread(target=publisher.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield publisher
    publisher.server.shutdown()
    thread.join()
    publisher.server.server_close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "tiny"


@pytest.fixture
def refused(place: Path) -> Callable[..., str]:
    """Fetch what cannot be fetched: the message, after a look that nothing was left behind."""

    def fetch(source: Source, error: type[BaseException] = Unavailable, **options: object) -> str:
        with pytest.raises(error) as raised:
            fetched(source, place, **options)
        assert not place.parent.exists() or not list(place.parent.iterdir())
        return str(raised.value)

    return fetch


def zipped(publisher: Publisher, known: str | None = md5(DATA)) -> Source:
    publisher.pages["/sets/tiny.zip"] = archive(tiny__u_data=DATA, tiny__u_item=b"film", tiny__other=b"unwanted")
    return Source(publisher.address, {"u_data": known, "u_item": None}, archive="tiny.zip")


def test_an_archive_is_unpacked_and_only_what_is_wanted(publisher: Publisher, place: Path) -> None:
    assert fetched(zipped(publisher), place) == place
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {"u_data": DATA, "u_item": b"film"}
    assert [path.name for path in place.parent.iterdir()] == ["tiny"]


def test_single_files_are_fetched_one_by_one(publisher: Publisher, place: Path) -> None:
    publisher.pages |= {"/sets/a.dat": b"a", "/sets/b.dat": b"b"}
    fetched(Source(publisher.address, {"a.dat": md5(b"a"), "b.dat": md5(b"b")}), place)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {"a.dat": b"a", "b.dat": b"b"}


def test_progress_counts_to_the_total(publisher: Publisher, place: Path) -> None:
    source, told = zipped(publisher), []
    total = len(publisher.pages["/sets/tiny.zip"])
    assert total > 2 * CHUNK
    fetched(source, place, lambda *progress: told.append(progress))
    assert told[0] == ("tiny.zip", 0, total)
    assert told[-1] == ("tiny.zip", total, total)
    assert [received for _, received, _ in told] == sorted({received for _, received, _ in told})


def test_another_hash_is_refused_and_both_are_named(publisher: Publisher, place: Path, refused: Callable[..., str]) -> None:
    message = refused(zipped(publisher, known="0" * 32))
    assert all(part in message for part in (md5(DATA), "0" * 32, "u_data", "tiny.zip", str(place)))


def test_the_edition_is_explained_where_the_publisher_changes_it(publisher: Publisher, refused: Callable[..., str]) -> None:
    publisher.pages["/sets/a.dat"] = b"grown"
    message = refused(Source(publisher.address, {"a.dat": md5(b"a")}, edition="the known ones are of May"))
    assert "the known ones are of May" in message


def test_a_download_that_ends_early_is_refused(publisher: Publisher, refused: Callable[..., str]) -> None:
    source = zipped(publisher, known=None)
    publisher.cut = CHUNK + 7
    assert f"ended after {CHUNK + 7} of {len(publisher.pages['/sets/tiny.zip'])} bytes" in refused(source)


def test_a_page_that_is_not_there_is_refused_with_what_to_do_by_hand(
    publisher: Publisher, place: Path, refused: Callable[..., str]
) -> None:
    message = refused(Source(publisher.address, {"u_data": None, "u_item": None}, archive="tiny.zip"))
    assert "404" in message
    assert f"download {publisher.address}/tiny.zip, unpack it, and put u_data, u_item into {place}" in message


def test_the_second_file_missing_leaves_nothing_of_the_first(publisher: Publisher, refused: Callable[..., str]) -> None:
    publisher.pages["/sets/a.dat"] = b"a"
    source = Source(publisher.address, {"a.dat": None, "b.dat": None})
    assert f"download {publisher.address}/a.dat and {publisher.address}/b.dat, and put a.dat, b.dat" in refused(source)
    assert publisher.asked == ["/sets/a.dat", "/sets/b.dat"]


def test_without_a_network_the_message_says_what_to_put_where(
    publisher: Publisher, place: Path, refused: Callable[..., str]
) -> None:
    message = refused(Source("http://127.0.0.1:1", {"u_data": None}, archive="tiny.zip"))
    assert f"download http://127.0.0.1:1/tiny.zip, unpack it, and put u_data into {place}" in message


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError("closed")])
def test_an_interruption_leaves_nothing_behind(
    publisher: Publisher, refused: Callable[..., str], interruption: BaseException
) -> None:
    def interrupted(_name: str, received: int, _total: int | None) -> None:
        if received > CHUNK:
            raise interruption

    refused(zipped(publisher), (KeyboardInterrupt, RuntimeError), progress=interrupted)


@pytest.mark.parametrize(
    "page",
    [b"not a zip", archive(tiny__u_data=DATA), archive(u_data=DATA, u_item=b""), zipfile.ZipFile.__doc__.encode()],
    ids=["not a zip", "a file missing", "no folder", "some text"],
)
def test_an_archive_that_is_another_one_is_refused(publisher: Publisher, refused: Callable[..., str], page: bytes) -> None:
    source = zipped(publisher)
    publisher.pages["/sets/tiny.zip"] = page
    assert "tiny.zip is not the archive it should be" in refused(source)


def test_a_damaged_member_is_refused_even_without_a_known_hash(publisher: Publisher, refused: Callable[..., str]) -> None:
    source = zipped(publisher, known=None)
    whole = publisher.pages["/sets/tiny.zip"]
    publisher.pages["/sets/tiny.zip"] = whole.replace(DATA[:80], DATA[:79] + b"!", 1)
    assert "u_data" in refused(source)


def test_an_archive_cannot_write_outside_its_folder(publisher: Publisher, place: Path) -> None:
    source = zipped(publisher)
    publisher.pages["/sets/tiny.zip"] = archive(tiny__u_data=DATA, tiny__u_item=b"", **{"tiny__..__..__evil": b"!"})
    fetched(source, place)
    assert not list(place.parents[1].rglob("evil"))


def test_a_folder_that_is_there_is_not_touched(publisher: Publisher, place: Path) -> None:
    place.mkdir(parents=True)
    (place / "mine").write_text("precious")
    with pytest.raises(Unavailable, match="already a folder"):
        fetched(zipped(publisher), place)
    assert (place / "mine").read_text() == "precious"
    assert not publisher.asked


def test_only_the_web_is_fetched_from(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "a.dat").write_text("secret")
    assert "address must start with" in refused(Source(tmp_path.as_uri(), {"a.dat": None}), InvalidInput)
