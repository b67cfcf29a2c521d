"""Ways through a network, told from a trace of level full: who handled what when, and where a way stops short.

told.py      what a run or a run in memory says, row by row
way.py       the way of one publication: which event sent which
hearing.py   what a broker had handled of interests that want a publication
deciding.py  why a client got it or did not, in a verdict and sentences
owed.py      the same by what a kind's definition gives; leaning.py what that leans on
ranking.py   where a broker decides first who gets it: who was asked, and who answered
rounds.py    a query that a server answers again and again; answering.py says why it was answered or not
stopping.py  why a run did not come to its end
beside.py    where the way differs from that of another run
rows.py      what a message diagram shows; plain.py and vector.py draw it as text and as SVG
"""
