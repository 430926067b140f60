from connect.protocol.membership import (
    CONFIG_MISMATCH,
    Assignment,
    WorkerState,
    decode_assignment,
    encode_metadata,
)
from connect.runtime.distributed.assignment import ConfigView, GroupLeader, Leadership

CONFIG = ConfigView(7, {"c": 2})


class Leader:
    """A leader with members m1 (itself) and m2."""

    def __init__(self, protocol: str = "sessioned") -> None:
        self.protocol = protocol
        self.leader = GroupLeader(300_000)
        self.fresh: list[ConfigView] = []

    def lead(self, config: ConfigView, *offsets: int) -> Leadership:
        version = {"default": 0, "compatible": 1, "sessioned": 2}[self.protocol]
        members = {
            f"m{number}": encode_metadata(WorkerState(f"http://w{number}/", offset), version)
            for number, offset in enumerate(offsets, 1)
        }
        return self.leader.lead(
            "m1",
            self.protocol,
            members,
            config,
            lambda: self.fresh.pop(),
            now_ms=1_000_000,
            last_completed_generation=0,
            current_generation=1,
        )


def decoded(leadership: Leadership) -> dict[str, Assignment]:
    return {member: decode_assignment(data) for member, data in leadership.assignments.items()}


def test_everybody_hears_who_leads_and_what_to_run() -> None:
    for protocol, version in (("default", 0), ("compatible", 1), ("sessioned", 2)):
        led = Leader(protocol).lead(CONFIG, 7, 7)
        assert decoded(led) == {
            "m1": Assignment(version, 0, "m1", "http://w1/", 7, decoded(led)["m1"].assigned),
            "m2": Assignment(version, 0, "m1", "http://w1/", 7, decoded(led)["m2"].assigned),
        }
        everything = [one for each in decoded(led).values() for one in each.assigned]
        assert sorted(everything) == [("c", -1), ("c", 0), ("c", 1)]


def test_the_leader_knows_where_each_task_runs() -> None:
    led = Leader().lead(CONFIG, 7, 7)
    owners = {one: f"http://w{m[1]}/" for m, each in decoded(led).items() for one in each.assigned}
    assert led.owner_urls == owners


def test_what_members_run_already_stays_and_is_not_assigned_again() -> None:
    running = Assignment(2, 0, "m1", "http://w1/", 7, (("c", -1), ("c", 0), ("c", 1)))
    members = {"m1": encode_metadata(WorkerState("http://w1/", 7, running), 2)}
    led = GroupLeader(0).lead(
        "m1",
        "sessioned",
        members,
        CONFIG,
        lambda: CONFIG,
        now_ms=0,
        last_completed_generation=1,
        current_generation=2,
    )
    assert decoded(led)["m1"].assigned == ()
    assert set(led.owner_urls) == set(running.assigned)


def test_a_newer_config_of_our_own_is_not_used() -> None:
    assert decoded(Leader().lead(ConfigView(9, {"c": 2}), 7, 6))["m1"].config_offset == 7


def test_a_member_ahead_makes_the_leader_read_on() -> None:
    leader = Leader()
    leader.fresh = [ConfigView(9, {"c": 1})]
    led = leader.lead(CONFIG, 7, 8)
    assert decoded(led)["m2"].config_offset == 9
    assert len(led.owner_urls) == 2


def test_a_leader_that_cannot_catch_up_assigns_nothing() -> None:
    leader = Leader()
    leader.fresh = [CONFIG]
    led = leader.lead(CONFIG, 7, 8)
    failed = Assignment(2, CONFIG_MISMATCH, "m1", "http://w1/", 8)
    assert decoded(led) == {"m1": failed, "m2": failed}
    assert not led.owner_urls
