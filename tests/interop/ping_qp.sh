#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# In a guest: asks the queue pair that the server which began last has named in its log. ping_qp.sh GID OPTIONS...
log=$(ls -t /out/*.server.log | head -n 1)
qp=$(sed -n 's/^listening at .*QP \([0-9]*\)$/\1/p' "$log")
gid=$1
shift
exec /out/parley mad ping "IBPath(DGID=$gid,dqpn=$qp)" "$@"
