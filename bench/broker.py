"""A Kafka broker of our own on loopback, for tests and measurements: one node that is its own controller.

    make kafka      starts one, says its address, and stops it at Ctrl-C

Its jars come from Maven and are kept beside the environment, so they are fetched once.  What must hold: a broker never
outlives the process that started it, however that process ends.  So a shell stands between the two: it waits for the
end of its standard input, which comes even if its parent is killed, and then kills the broker.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import ipaddress
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from weft.launch.java import ensure_java

VERSION = "4.3.1"
JARS = Path(sys.prefix) / "kafka" / VERSION
CLUSTER = "weft-broker-of-its-own"
PATIENCE = 180
"""Seconds to start in; an idle machine needs seven."""
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>weft</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
  </dependency></dependencies>
</project>"""
USER, PASSWORD = "weft", "not-so-secret"
_JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
_GUARD = '"$@" & read _; kill -9 $!; wait $! 2>/dev/null'
_JVM = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def missing() -> str | None:
    """Why there can be no broker here, in one line; None if there can.  Fetches the jars the first time."""
    if JARS.exists():
        return None
    if shutil.which("mvn") is None:
        return "no Kafka broker: its jars come from Maven, and there is no mvn on PATH"
    JARS.parent.mkdir(parents=True, exist_ok=True)
    with open(JARS.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes of tests may begin at once
        return None if JARS.exists() else _fetch()


def _fetch() -> str | None:
    with tempfile.TemporaryDirectory(dir=JARS.parent) as aside:
        Path(aside, "pom.xml").write_text(_POM)
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={aside}/jars"]
        done = subprocess.run(command, cwd=aside, capture_output=True, text=True)
        if done.returncode:
            said = [line for line in done.stdout.splitlines() if "ERROR" in line]
            return f"no Kafka broker: Maven cannot fetch its jars: {said[0] if said else 'see mvn'}"
        os.rename(f"{aside}/jars", JARS)
    return None


class Broker:
    """One broker: a folder, an address, and a process while it runs."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.servers = f"127.0.0.1:{_free_port()}"
        self.guarded = f"127.0.0.1:{_free_port()}"
        """Speaks TLS, and asks for the name USER and the password PASSWORD."""
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._write_certificate()
        self._write_settings(settings or {})
        self._run("kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER, "-c", str(self._settings))

    @property
    def _settings(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _keystore(self) -> Path:
        return self.folder / "keystore.pem"

    @property
    def certificate(self) -> Path:
        """By which clients know the broker: for the option `ssl.ca.location`."""
        return self.folder / "certificate.pem"

    @property
    def log(self) -> Path:
        """What the broker says."""
        return self.folder / "broker.log"

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", _GUARD, "broker", *self._java("kafka.Kafka", str(self._settings))],
                stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        limit = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > limit:
                self.stop()
                raise RuntimeError("the broker did not start:\n" + "\n".join(self.log.read_text().splitlines()[-20:]))

    def stop(self) -> None:
        """Kill it: what it has acknowledged is in the files of its folder."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=30)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0, "reconnect.backoff.max.ms": 200})
            return bool(admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def _java(self, *arguments: str) -> list[str]:
        log = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
        return [str(ensure_java().home / "bin" / "java"), *_JVM, log, "-cp", f"{JARS}/*", *arguments]

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(self._java(*arguments), capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode:
            raise RuntimeError(f"{arguments[0]} failed: {done.stdout[-500:]}{done.stderr[-500:]}")

    def _write_certificate(self) -> None:
        """A key, and a certificate that it signs itself, for one day."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
        now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
        made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        signed = made.add_extension(address, critical=False).sign(key, hashes.SHA256())
        pem = serialization.Encoding.PEM
        secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        self.certificate.write_bytes(signed.public_bytes(pem))
        self._keystore.write_bytes(secret + signed.public_bytes(pem))

    def _write_settings(self, more: Mapping[str, str]) -> None:
        controller = _free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.servers},GUARDED://{self.guarded},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.servers},GUARDED://{self.guarded}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:SASL_SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.guarded.plain.sasl.jaas.config": _JAAS,
            "listener.name.guarded.ssl.keystore.type": "PEM",
            "listener.name.guarded.ssl.keystore.location": str(self._keystore),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "broker.session.timeout.ms": "4000",  # a broker that was killed is missed for so long
            "log.cleaner.backoff.ms": "100",
            "log.initial.task.delay.ms": "100",
            "log.retention.check.interval.ms": "500",
            **more,
        }
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        quiet = "rootLogger.level=warn\nrootLogger.appenderRef.out.ref=out\n"
        quiet += "appender.out.type=Console\nappender.out.name=out\n"
        (self.folder / "log4j2.properties").write_text(quiet)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextlib.contextmanager
def running(settings: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """A broker with a folder of its own, which goes with it."""
    with tempfile.TemporaryDirectory(prefix="weft-kafka-") as folder, Broker(Path(folder), settings) as broker:
        yield broker


def main() -> None:
    """Run a broker until Ctrl-C."""
    if why := missing():
        raise SystemExit(why)
    print("starting a Kafka broker ...", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), running() as broker:
        print(f"Kafka {VERSION} at {broker.servers}; Ctrl-C stops it and removes what it holds", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
