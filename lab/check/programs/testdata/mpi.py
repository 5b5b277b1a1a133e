"""Ranks of MPI send to each other, write to and read from each other's windows, and use
collectives; all data are compared. An argument makes the largest messages larger."""
import sys
import mpi4py
mpi4py.rc.threads = False  # Open MPI's windows over messages want one thread
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()
after, before = (rank + 1) % ranks, (rank - 1) % ranks
large = int(sys.argv[1])


def pattern(size, seed):
    return bytearray(bytes((i * 7 + seed * 13) & 255 for i in range(251)) * (size // 251 + 1))[:size]


sizes = [0] + [1 << i for i in range(23) if 1 << i <= large] + [large - 1]
for size in sizes:
    got = bytearray(size)
    MPI.Request.Waitall([world.Irecv(got, source=before, tag=size % 1000),
                         world.Isend(pattern(size, rank), dest=after, tag=size % 1000)])
    assert got == pattern(size, before), ("send", size)

window = MPI.Win.Allocate(large * ranks, comm=world)
mine = pattern(large, rank)  # it has to live until the fence
window.Fence()
window.Put(mine, after, target=[large * rank, large, MPI.BYTE])
window.Fence()
assert window.tomemory()[large * before:large * (before + 1)] == pattern(large, before), "put"
got = bytearray(large)
window.Fence()
window.Get(got, after, target=[large * rank, large, MPI.BYTE])
window.Fence()
assert got == pattern(large, rank), "get"
window.Free()

assert world.allreduce(rank + 1) == ranks * (ranks + 1) // 2, "allreduce"
assert world.alltoall([rank * ranks + i for i in range(ranks)]) == [i * ranks + rank for i in range(ranks)], "alltoall"
data = pattern(large, 42) if rank == 0 else bytearray(large)
world.Bcast(data, root=0)
assert data == pattern(large, 42), "bcast"
every = bytearray(large * ranks)
world.Allgather(pattern(large, rank), every)
assert every == b"".join(pattern(large, r) for r in range(ranks)), "allgather"
world.Barrier()
if rank == 0:
    print("verified:", ranks, "ranks,", len(sizes), "sizes up to", large)
