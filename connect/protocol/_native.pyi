from collections.abc import Sequence

def scan(
    records: memoryview,
    position: int,
    max_size: int,
    min_batches: int,
    max_records: int,
    max_packed: int,
    max_dense: int,
    /,
) -> list[Sequence[int]] | None: ...
def merge(
    batches: memoryview, max_bytes: int, max_records: int, /
) -> list[tuple[bytearray, int, list[tuple[int, int]], int, int]]: ...
def stamp(
    batch: memoryview,
    producer_id: int,
    producer_epoch: int,
    sequence: int,
    transactional: bool,
    /,
) -> None: ...
