"""What stands in which column of the engine's arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokers.out import AS_IT_CAME

NEVER = np.int64(1 << 62)

# Columns of the per-link state.
L_FREE, L_LAST, L_SENT, L_BYTES, L_LOST, L_BUSY, L_UP, L_BAD, L_WORN, L_DROPPED = range(10)
LINK_STATE = 10
# Columns of the fixed per-link facts.
F_DELAY, F_JITTER, F_BANDWIDTH, F_TARGET, F_LOCAL = range(5)
LINK_FACTS = 5
# Columns of the per-broker state.
B_BUSY, B_SEQUENCE, B_HANDLED, B_WORK, B_DELIVERED, B_DIGEST_A, B_DIGEST_B, B_UP, B_DROPPED = range(9)
BROKER_STATE = 9
# Columns of a ring: where its rows lie in the arena.
R_OFFSET, R_CAPACITY, R_HEAD, R_COUNT = range(4)
RING = 4
# Columns of a row in a ring.
M_TIME, M_SEQUENCE, M_WORD, M_PACKED, M_CAUSE = range(5)
ROW = 5
# An input row (what a client sends) is the row of a ring and its source.
I_SOURCE = 5
INPUT = 6
# A row of the outbox is the row of a ring and the link whose far end another shard carries.
O_LINK = 5
OUT_ROW = 6
# Wide and narrow columns of a batch.
W_TIME, W_SOURCE, W_SEQUENCE, W_WORD = range(4)
WIDE = 4
N_BROKER, N_KIND, N_LINK, N_TYPE, N_SERVICE, N_BODY, N_CAUSE = range(7)
NARROW = 7
# Rows of what sends say beside event and link, and of timers.
S_TYPE, S_BODY, S_WORD, S_SIZE, S_CAUSE = range(5)
SEND_DETAIL = 5
REPEATED = np.int64(AS_IT_CAME)  # in place of a value: what the event itself brought
T_EVENT, T_DELAY, T_TYPE, T_BODY, T_WORD, T_CAUSE = range(6)
TIMER = 6
# Columns of a cause: what a change has set in motion.
C_SENT, C_HANDLED, C_FINISH, C_LOST = range(4)
CAUSE = 4
# Columns of a service's totals over deliveries.
D_COUNT, D_LATENCY, D_LONGEST, D_TIMED, D_AWAY = range(5)
TOTALS = 5
# How far compiled code is with the rows on the bench: those before ROWS are settled, before HANDLED decided on, before
# LAID gathered; of the answers, those before SENT and DELIVERED are settled.
# WANTED: whether somebody wants to see rows before they are cleared off the bench. BESIDE: messages of the last round
# that were doubled, minus timers that never ring.
ROWS, HANDLED, LAID, SENT, DELIVERED, LOST, MOVED, ROUNDS, EVENTS, WRONG, WANTED, BESIDE = range(12)
COURSE = 12
# Columns of what was lost or doubled in a batch: which send, when it left or would have, and why.
X_SEND, X_TIME, X_REASON = range(3)
LOSS = 3
# Columns of what found no place in a queue: when, where, the link it came by (-1: from a client), and what it was.
Q_TIME, Q_BROKER, Q_LINK, Q_PACKED, Q_CAUSE, Q_REASON = range(6)
DROPPED = 6
# Rows of stretches of time in which something is broken: begin, end, and what holds in it: how many thousandths of its
# time a broker takes; how much longer and slower a link is, and the limits of draws that lose and double. Where it has
# bursts, those lose while it is good, and four limits more are of the bursts.
Z_BEGIN, Z_END, Z_HOLDS = range(3)
Z_DELAY, Z_SLOWER, Z_LOSS, Z_TWICE, Z_BEGINS, Z_ENDS, Z_SHARE, Z_BAD = range(2, 10)
# Rows of bursts by link, all limits of draws: that a good one turns bad, a bad one good, the first is bad; that
# one loses while it is good, and bad.
G_BEGINS, G_ENDS, G_SHARE, G_GOOD, G_BAD = range(5)
# Columns of a service's cost model that the engine charges by itself; protocols charge entries and matches.
COST_BASE, COST_PER_LINK, COST_PER_BYTE = 0, 3, 4
COST = 5

KIND_FAULT, KIND_MESSAGE, KIND_TIMER = 0, 1, 2
FAULT_SOURCE = -1  # who sends events of that kind: before all entities

BODILESS_BYTES = 16  # on the wire, of a message without a body
NS_PER_S = 1_000_000_000

# How batches are cut, and where the engine is with it.
CUT_MODE, CUT_LIMIT, CUT_KEY, CUT_DRAWN, CUT_CURSOR = range(5)
CUT = 5
MODE_HORIZON, MODE_ONE, MODE_RANDOM = 0, 1, 2

# Columns of the turns that brokers get in a round.
TURN_BROKER, TURN_UNTIL, TURN_ROWS = range(3)
TURN = 3
# Columns of the heap of what holds something for one broker: the next time of each, what decides between those of one
# time, and the ring it is (-1: the inputs).
HEAP_TIME, HEAP_ORDER, HEAP_RING = range(3)
HEAP = 3
# Of links that are described: the number of the first, of how many nodes, the shortest delay of one, and which is the
# first ring of posts; where there are none, no link and no ring reaches as far.
P_FIRST, P_NODES, P_SHORTEST, P_RINGS = range(4)
POSTING = 4
# In a row of a post the source stands over the sequence, since it comes from any: rows are in order of both.
POST_SOURCE = np.int64(40)
POST_SEQUENCE = np.int64((1 << 40) - 1)
TIMER_ORDER = np.int64(KIND_TIMER << 48)  # timers come after messages, which are ordered by their source


def apart(count: int) -> NDArray[np.int64]:
    """Zeros that share no cache line with anything: what one thread writes all the time slows down no other."""
    return np.zeros(count + 32, np.int64)[16 : 16 + count]
