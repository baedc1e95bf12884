#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# In a guest: asks the queue pair that the server of the last case has named in its log. ping_qp.sh GID OPTIONS...
case=0
while [ -e "/out/$((case + 1)).server.log" ]; do case=$((case + 1)); done
qp=$(sed -n 's/^listening at .*QP \([0-9]*\)$/\1/p' "/out/$case.server.log")
gid=$1
shift
exec /out/parley mad ping "IBPath(DGID=$gid,dqpn=$qp)" "$@"
