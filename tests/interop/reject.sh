#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# reject.sh ROUTE SECONDS [CODE]: for so long this guest answers packets to its IPv4 address as a router that has no way for them. ROUTE is
# the type of route: unreachable, prohibit, or blackhole, where icmp_reject.py sends ICMP's CODE. Its own packets still go.
own=$(ip -4 -o address show dev "$NIC" primary | awk '{split($4, a, "/"); print a[1]; exit}')
restore() {
  ip route replace local "$own" dev "$NIC" table local proto kernel scope host src "$own"
}
trap 'restore; exit 0' INT TERM
echo 1 >/proc/sys/net/ipv4/ip_forward
ip route replace "$1" "$own" table local
if [ "$3" ]; then
  timeout "$2" python3 /out/icmp_reject.py "$3" "$NIC"
else
  echo rejecting
  sleep "$2"
fi
restore
