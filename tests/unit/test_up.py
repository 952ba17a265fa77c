"""The parts of `tellback up`, each by itself."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tellback import clock
from tellback.connection_file import NAME, RunningSystem, find_running, remove_connection_file, write_connection_file
from tellback.errors import ConfigurationError
from tellback.settings import load
from tellback.up import child as children
from tellback.up import guard as guards
from tellback.up.child import ChildProcess, ChildProgram, last_line, rotate_log
from tellback.up.guard import STOP_SIGNALS
from tellback.up.redis_server import configuration, parse_version
from tellback.up.system import DataDir
from tests.support.processes import run_program
from tests.support.waiting import wait_until


def running_system(pid: int, url: str = "redis://:geheim@127.0.0.1:1/0") -> RunningSystem:
    return RunningSystem(pid=pid, redis_url=url, flower_url=None, data_dir="d")


class TestConnectionFile:
    def test_a_live_system_is_found_and_its_file_is_private(self, tmp_path: Path) -> None:
        write_connection_file(tmp_path / "new", running_system(os.getpid()))
        assert find_running(tmp_path / "new") == running_system(os.getpid())
        assert (tmp_path / "new" / NAME).stat().st_mode & 0o777 == 0o600

    @pytest.mark.programs
    def test_a_dead_one_is_not(self, tmp_path: Path) -> None:
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        write_connection_file(tmp_path, running_system(dead.pid))
        assert find_running(tmp_path) is None

    @pytest.mark.skipif(sys.platform != "linux", reason="other systems don't say when a process started")
    def test_another_process_with_its_id_is_not(self, tmp_path: Path) -> None:
        """As after a restart of the machine. Requirement A-491."""
        write_connection_file(tmp_path, running_system(os.getpid()))
        path = tmp_path / NAME
        path.write_text(path.read_text().replace(f'"started": "{clock.process_start(os.getpid())}"', '"started": "1"'))
        assert find_running(tmp_path) is None

    @pytest.mark.parametrize("mode", [0o644, 0o620])
    def test_a_file_that_others_can_read_or_write_is_not_believed(self, tmp_path: Path, mode: int) -> None:
        write_connection_file(tmp_path, running_system(os.getpid()))
        (tmp_path / NAME).chmod(mode)
        assert find_running(tmp_path) is None

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
    def test_a_file_of_another_user_is_not_believed(self, tmp_path: Path) -> None:
        write_connection_file(tmp_path, running_system(os.getpid()))
        os.chown(tmp_path / NAME, 65534, -1)
        assert find_running(tmp_path) is None

    @pytest.mark.parametrize("text", ["", "{", '{"pid": "x"}', '{"pid": 99999999999999999999}', "[]"])
    def test_what_is_none_of_ours_is_not_believed(self, tmp_path: Path, text: str) -> None:
        (tmp_path / NAME).write_text(text)
        (tmp_path / NAME).chmod(0o600)
        assert find_running(tmp_path) is None

    def test_only_its_own_process_withdraws_it(self, tmp_path: Path) -> None:
        write_connection_file(tmp_path, running_system(os.getppid()))
        remove_connection_file(tmp_path, os.getpid())
        assert find_running(tmp_path) is not None
        remove_connection_file(tmp_path, os.getppid())
        assert not (tmp_path / NAME).exists()

    def test_settings_take_it_after_arguments_and_environment(self, tmp_path: Path) -> None:
        environ = {"TELLBACK_DATA_DIR": str(tmp_path)}
        assert load(environ).redis_url == "redis://127.0.0.1:6379/0"
        write_connection_file(tmp_path, running_system(os.getpid(), "redis://up/0"))
        assert load(environ).redis_url == "redis://up/0"
        assert load({**environ, "TELLBACK_REDIS_URL": "redis://env/0"}).redis_url == "redis://env/0"
        assert load(environ, redis_url="redis://argument/0").redis_url == "redis://argument/0"


class TestRedisConfiguration:
    @pytest.mark.parametrize(("text", "version"), [("7.2.4", (7, 2, 4)), ("8.0-rc1", (8, 0)), ("x", ())])
    def test_versions(self, text: str, version: tuple[int, ...]) -> None:
        assert parse_version(text) == version

    def test_a_folder_with_spaces_and_quotes_stays_one_word(self) -> None:
        text = configuration(port=1, password="p", folder=Path('/a b/"c"')).decode()
        assert 'dir "/a b/\\"c\\""' in text.splitlines()


class TestDataDir:
    def test_passwords_are_made_once_and_private(self, tmp_path: Path) -> None:
        folder = DataDir(tmp_path / "data")
        password = folder.secret("redis")
        assert len(password) == 64
        assert folder.secret("redis") == password
        assert folder.secret("flower") != password
        assert (tmp_path / "data" / "redis.password").stat().st_mode & 0o777 == 0o600
        folder.close()

    def test_folders_that_others_could_enter_are_closed_to_them(self, tmp_path: Path) -> None:
        (tmp_path / "redis").mkdir(mode=0o755)
        folder = DataDir(tmp_path)
        modes = {place.name: place.stat().st_mode & 0o777 for place in (folder.redis, folder.logs, folder.beat)}
        assert modes == {"redis": 0o700, "logs": 0o700, "beat": 0o700}
        folder.close()

    def test_a_password_that_others_could_read_is_made_private(self, tmp_path: Path) -> None:
        (tmp_path / "redis.password").write_text("abc\n")
        folder = DataDir(tmp_path)
        assert folder.secret("redis") == "abc"
        assert (tmp_path / "redis.password").stat().st_mode & 0o777 == 0o600
        folder.close()

    @pytest.mark.parametrize("text", ["", "a b", "x\nappendonly no", "p@ss"])
    def test_a_password_that_would_break_configuration_or_url_is_refused(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "redis.password").write_text(text)
        folder = DataDir(tmp_path)
        with pytest.raises(ConfigurationError, match="delete it to create a new one"):
            folder.secret("redis")
        folder.close()

    def test_two_at_once_are_refused_and_one_after_the_other_are_not(self, tmp_path: Path) -> None:
        first = DataDir(tmp_path)
        with pytest.raises(ConfigurationError, match="another `tellback up` uses the data directory"):
            DataDir(tmp_path)
        first.close()
        DataDir(tmp_path).close()


class TestChild:
    @pytest.fixture
    def reported(self) -> list[str]:
        return []

    def child(self, tmp_path: Path, reported: list[str], code: str, stdin: bytes | None = None) -> ChildProcess:
        argv = [sys.executable, "-c", code]
        program = ChildProgram(name="c", argv=argv, log=tmp_path / "c.log", environ=dict(os.environ), stdin=stdin)
        return ChildProcess(program, report=reported.append)

    @pytest.mark.programs
    def test_its_output_is_in_a_private_log(self, tmp_path: Path, reported: list[str]) -> None:
        child = self.child(tmp_path, reported, "import sys; print(sys.stdin.read()); sys.exit('last')", b"given")
        child.start()
        assert wait_until(child.exit_code, "it ends") == 1
        assert child.program.log.read_text() == "given\nlast\n"
        assert last_line(child.program.log) == "last"
        assert child.program.log.stat().st_mode & 0o777 == 0o600

    @pytest.mark.programs
    def test_the_guard_learns_of_its_beginning_and_end(self, tmp_path: Path, reported: list[str]) -> None:
        child = self.child(tmp_path, reported, "")
        child.start()
        pid = child.pid
        wait_until(lambda: child.exit_code() is not None, "it ends")
        assert reported == [f"{pid}\n", f"-{pid}\n"]

    @pytest.mark.programs
    def test_delays_double_up_to_a_limit_and_are_short_again_after_health(
        self, tmp_path: Path, reported: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [1000.0]
        monkeypatch.setattr(clock, "monotonic", lambda: now[0])
        child = self.child(tmp_path, reported, "")
        delays: list[float] = []
        for lived in [0.0] * 8 + [children.HEALTHY_AFTER]:
            child.start()
            assert child.process is not None
            child.process.wait()
            now[0] += lived
            assert child.exit_code() == 0
            delays.append(child.delay)
            assert child.next_start == pytest.approx(now[0] + delays[-1])
        assert delays == [0.5, 1, 2, 4, 8, 16, 30, 30, 0.5]

    @pytest.mark.programs
    def test_what_it_leaves_in_its_group_is_killed(self, tmp_path: Path, reported: list[str]) -> None:
        sleeper = "[sys.executable, '-c', 'import time; time.sleep(300)']"
        code = f"import subprocess, sys; print(subprocess.Popen({sleeper}).pid)"
        child = self.child(tmp_path, reported, code)
        child.start()
        wait_until(lambda: child.exit_code() is not None, "it ends")
        left = int(child.program.log.read_text())
        wait_until(lambda: not Path(f"/proc/{left}").exists() or "Z" in _state(left), "what it left is gone")

    def test_a_long_log_is_rotated(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(children, "LOG_BYTES", 10)
        log = tmp_path / "c.log"
        log.write_text("short\n")
        rotate_log(log)
        assert log.read_text() == "short\n"
        log.write_text("longer than that\n")
        rotate_log(log)
        assert log.read_text() == ""
        assert (tmp_path / "c.log.1").read_text() == "longer than that\n"

    def test_the_last_line_of_no_log_is_empty(self, tmp_path: Path) -> None:
        assert last_line(tmp_path / "none") == ""


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


SIGNALLED_AS_IT_STOPS = """
import signal, socket, sys
from pathlib import Path
from types import SimpleNamespace
from tellback.up import supervisor
from tellback.up.child import ChildProcess, ChildProgram

supervisor.STOP_SECONDS = supervisor.ORPHANED_STOP_SECONDS = supervisor.REDIS_STOP_SECONDS = float("inf")
folder, (before, invited) = Path(sys.argv[1]), map(int, sys.argv[2:4])

def child_that(handler, log):
    waits = f"import os, signal, time; signal.signal(15, {handler}); print('on', flush=True); signal.pause()"
    return ChildProcess(ChildProgram("c", [sys.executable, "-c", waits], log, {}), report=print)

children = {name: child_that(handler, folder / name) for name, handler in zip(("c", "redis"), sys.argv[4:])}
settings, data_dir = SimpleNamespace(redis_url="", served_teams=()), SimpleNamespace(path=Path(), close=print)
system = SimpleNamespace(settings=settings, flower_url=None, data_dir=data_dir, redis=None)
guard, theirs = socket.socketpair()
up = supervisor.SystemSupervisor(system, guard, SimpleNamespace(stopping=lambda: signalled(invited)))
up._children |= children

def signalled(times):
    for _ in range(times):
        signal.raise_signal(15)

def start():
    for name, child in children.items():
        child.start()
        while not (folder / name).read_text():
            supervisor.clock.sleep(0.01)
    signalled(before)
    if not before:
        theirs.close()

up._start = start
up.run()
"""


FINISHES = "lambda *_: (time.sleep(0.2), print('finished', flush=True), exit())"


class TestSupervisor:
    @pytest.mark.programs
    def test_a_second_signal_counts_from_the_word_that_invites_it(self, tmp_path: Path) -> None:
        """One that came before the wait began was taken for the first, and only a third one ended the wait."""
        program = [sys.executable, "-c", SIGNALLED_AS_IT_STOPS, str(tmp_path), "1", "1", "signal.SIG_IGN"]
        run_program(program, timeout=60, check=True)

    @pytest.mark.programs
    def test_a_second_signal_leaves_redis_the_time_to_save(self, tmp_path: Path) -> None:
        program = [sys.executable, "-c", SIGNALLED_AS_IT_STOPS, str(tmp_path), "1", "1", "signal.SIG_IGN", FINISHES]
        run_program(program, timeout=60, check=True)
        assert (tmp_path / "redis").read_text() == "on\nfinished\n"

    @pytest.mark.programs
    def test_a_stop_that_comes_twice_is_one(self, tmp_path: Path) -> None:
        """The guard passes on what systemd sends to both: what ran was killed at once, before it could finish."""
        program = [sys.executable, "-c", SIGNALLED_AS_IT_STOPS, str(tmp_path), "2", "0", FINISHES]
        run_program(program, timeout=60, check=True)
        assert (tmp_path / "c").read_text() == "on\nfinished\n"

    @pytest.mark.programs
    def test_the_first_signal_while_it_stops_by_itself_ends_nothing_at_once(self, tmp_path: Path) -> None:
        """Its guard died, and nothing has said yet that a second signal would."""
        signals_first = FINISHES.replace("(", "(os.kill(os.getppid(), 15), ", 1)
        program = [sys.executable, "-c", SIGNALLED_AS_IT_STOPS, str(tmp_path), "0", "0", signals_first]
        run_program(program, timeout=60, check=True)
        assert (tmp_path / "c").read_text() == "on\nfinished\n"


class TestGuard:
    @pytest.mark.programs
    def test_where_the_kernel_does_not_help_it_kills_the_groups_that_had_not_ended(self) -> None:
        """Systems without a subreaper need this: the guard knows the groups from the dead supervisor."""
        sleep = [sys.executable, "-c", "import time; time.sleep(300)"]
        left = subprocess.Popen(sleep, start_new_session=True)
        other = subprocess.Popen(sleep, start_new_session=True)
        guard, supervisor = socket.socketpair()
        with guard, supervisor:
            supervisor.sendall(f"{left.pid}\n{other.pid}\n-{other.pid}\n".encode())
            supervisor.shutdown(socket.SHUT_WR)
            guards._kill_process_groups(guard)
        try:
            assert left.wait(60) == -9
            assert other.poll() is None
        finally:
            other.kill()
            other.wait()

    @pytest.mark.programs
    def test_the_exit_code_is_the_supervisor_s(self) -> None:
        code = "import sys; from tellback.up.guard import run_guarded; sys.exit(run_guarded(lambda guard: 7))"
        assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 7

    @pytest.mark.programs
    @pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is a device of Linux")
    def test_it_is_that_also_if_the_last_line_cannot_be_written(self) -> None:
        """The supervisor left the code that ends it, and ran that of the guard too."""
        code = "from tellback.up.guard import run_guarded; exit(run_guarded(lambda guard: print('x') or 7))"
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [sys.executable, "-c", code], stdout=full, stderr=full, env=buffered, timeout=30, check=False
            )
        assert done.returncode == 7

    @pytest.mark.programs
    @pytest.mark.parametrize("number", STOP_SIGNALS)
    def test_a_stop_before_the_supervisor_handles_it_is_no_failure(self, number: signal.Signals) -> None:
        """Requirement A-653. Four seconds after a start, a Ctrl-C made `up` say that the supervisor was killed."""
        code = "run_guarded(lambda guard: print('up', flush=True) or guard.recv(1))"
        code = f"import sys; from tellback.up.guard import run_guarded; sys.exit({code})"
        program = [sys.executable, "-c", code]
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as up:
            assert up.stdout is not None
            assert up.stdout.readline() == "up\n"
            up.send_signal(number)
            assert (up.communicate(timeout=60)[1], up.returncode) == ("", 0)

    @pytest.mark.programs
    @pytest.mark.parametrize("number", STOP_SIGNALS)
    def test_a_stop_from_the_terminal_before_the_supervisor_leaves_it_is_no_failure(
        self, number: signal.Signals
    ) -> None:
        """Requirement A-653. A Ctrl-C in that moment made `up` print a traceback of the supervisor, and end with 1."""
        code = f"os.setsid = lambda: signal.raise_signal({int(number)}); sys.exit(run_guarded(lambda guard: 7))"
        done = run_program(
            [sys.executable, "-c", f"import os, signal, sys; from tellback.up.guard import run_guarded; {code}"]
        )
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.programs
    def test_a_supervisor_that_raises_is_shown_and_is_a_failure(self) -> None:
        code = "import sys; from tellback.up.guard import run_guarded; sys.exit(run_guarded(lambda guard: 1 / 0))"
        done = run_program([sys.executable, "-c", code])
        assert done.returncode == 1
        assert "ZeroDivisionError" in done.stderr

    @pytest.mark.programs
    @pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (40, "SIGRTMIN+6")])  # Python names the first only
    def test_descendants_that_left_every_group_are_killed_when_the_supervisor_dies(
        self, number: int, name: str
    ) -> None:
        """On Linux, a process in a session of its own comes back to the guard as the subreaper."""
        if sys.platform != "linux":
            pytest.skip("only Linux has subreapers")
        code = (
            "import os, subprocess, sys, time\n"
            "from tellback.up.guard import run_guarded\n"
            "def supervise(guard):\n"
            '    far = \'import subprocess; print(subprocess.Popen(["sleep", "300"]\'\n'
            "    far += ', start_new_session=True, stdout=2).pid, flush=True)'\n"
            "    subprocess.run([sys.executable, '-c', far], start_new_session=True)\n"
            f"    os.kill(os.getpid(), {number})\n"
            "sys.exit(run_guarded(supervise))\n"
        )
        done = run_program([sys.executable, "-c", code])
        assert done.returncode == 1
        assert f"the supervisor was killed ({name})" in done.stderr
        assert not Path(f"/proc/{int(done.stdout)}").exists()


ASK = "import sys; from tellback.up.launch import die_with_parent; die_with_parent(int(sys.argv[1])); print('lives')"


@pytest.mark.programs
def test_a_child_whose_parent_is_gone_ends_itself() -> None:
    """The kernel signals only deaths that come after the request."""
    for parent, said in ((os.getpid(), "lives\n"), (1 << 22, "")):
        argv = [sys.executable, "-c", ASK, str(parent)]
        child = run_program(argv)
        assert (child.stdout, child.returncode) == (said, int(not said)), child.stderr
