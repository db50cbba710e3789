"""A pipeline of four processes that publish to each other by DDS: sensor, filter, plan, motor.

chain.py CPU CPU: the sensor wakes each 20 ms. Prints for each round when the sensor was due and when
the motor had finished, on CLOCK_MONOTONIC in ns. Needs the package cyclonedds.
"""

import ctypes
import os
import sys
import time
from dataclasses import dataclass

from cyclonedds.core import Qos, Policy, ReadCondition, SampleState, ViewState
from cyclonedds.core import InstanceState, WaitSet
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import uint64
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

NAMES = ["c-sensor", "c-filter", "c-plan", "c-motor"]
BUSY_US = [1000, 1500, 1200, 1000]
ROUNDS = 40
# Only the loopback device, and no multicast.
CONFIG = """<CycloneDDS><Domain Id="any"><General><Interfaces>
<NetworkInterface name="lo" multicast="false"/></Interfaces><AllowMulticast>false</AllowMulticast>
</General><Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>20
</MaxAutoParticipantIndex><Peers><Peer Address="127.0.0.1"/></Peers></Discovery></Domain></CycloneDDS>"""


@dataclass
class Message(IdlStruct):
    due: uint64


def compute(us):
    until = time.thread_time_ns() + us * 1000
    while time.thread_time_ns() < until:
        pass


def sleep_until(at):
    # A longer sleep does no harm.
    while (left := at - time.monotonic_ns()) > 0:
        time.sleep(left / 1e9)


def stage(number, cpu):
    ctypes.CDLL(None).prctl(15, NAMES[number].encode(), 0, 0, 0)
    os.sched_setaffinity(0, [cpu])
    # The threads of DDS inherit the priority.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50 + number))
    os.environ["CYCLONEDDS_URI"] = CONFIG
    participant = DomainParticipant(int(os.environ.get("ROS_DOMAIN_ID", "77")))
    qos = Qos(Policy.Reliability.BestEffort, Policy.History.KeepLast(8))
    reader = writer = None
    if number > 0:
        reader = DataReader(participant, Topic(participant, f"link{number}", Message), qos=qos)
        waits = WaitSet(participant)
        new = ReadCondition(
            reader, SampleState.NotRead | ViewState.Any | InstanceState.Any)
        waits.attach(new)
    if number < 3:
        writer = DataWriter(participant, Topic(participant, f"link{number + 1}", Message), qos=qos)
    until = time.monotonic_ns() + 20_000_000_000
    while writer and not writer.get_matched_subscriptions() and time.monotonic_ns() < until:
        time.sleep(0.01)
    while reader and not reader.get_matched_publications() and time.monotonic_ns() < until:
        time.sleep(0.01)
    if number == 0:
        # The later stages may still be looking for each other.
        time.sleep(1)
    due = time.monotonic_ns() + 50_000_000
    for _ in range(ROUNDS):
        if number == 0:
            due += 20_000_000
            sleep_until(due)
        else:
            if not waits.wait(duration(seconds=5)):
                os._exit(6)
            due = reader.take(1)[0].due
        compute(BUSY_US[number])
        if number == 2:
            time.sleep(0.001)
        if writer:
            writer.write(Message(due))
        else:
            print(due, time.monotonic_ns(), flush=False)
    sys.stdout.flush()
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    time.sleep(0.2)
    os._exit(0)


def main():
    cpus = [int(cpu) for cpu in sys.argv[1:3]]
    children = []
    for number in reversed(range(4)):
        pid = os.fork()
        if pid == 0:
            stage(number, cpus[number % 2])
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    sys.exit(max(codes))


main()
