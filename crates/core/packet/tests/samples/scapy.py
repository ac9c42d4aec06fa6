# Writes the sample packets beside this file; needs scapy 2.6 or newer.
from scapy.all import *
from scapy.contrib.roce import *
load_contrib("roce")
E = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
ip4 = IP(src="192.0.2.1", dst="192.0.2.2")
ip6 = IPv6(src="2001:db8::1", dst="2001:db8::2")
packets = [
    E / ARP(op=1, hwsrc="02:00:00:00:00:01", psrc="192.0.2.1", pdst="192.0.2.2"),
    E / Dot1Q(vlan=100, prio=5) / ip4 / UDP(sport=40000, dport=7) / b"hello",
    E / Dot1AD(vlan=7) / Dot1Q(vlan=100) / ip6 / UDP(sport=40000, dport=7) / b"hello",
    E / ip4 / TCP(sport=40000, dport=5001, flags="S", seq=1, window=65535, options=[
        ("MSS", 1460), ("SAckOK", b""), ("Timestamp", (305419896, 0)), ("NOP", None), ("WScale", 10)]),
    E / ip6 / TCP(sport=40000, dport=5001, flags="A", seq=7, ack=9, options=[
        ("NOP", None), ("NOP", None), ("SAck", (1000, 2448)), ("Timestamp", (5, 6))]) / b"data",
    E / IP(src="192.0.2.1", dst="192.0.2.2", options=[IPOption_Router_Alert()]) / UDP(sport=1, dport=2) / b"x",
    E / ip6 / IPv6ExtHdrHopByHop(options=[RouterAlert()]) / UDP(sport=1, dport=2) / b"x",
]
packets += [E / f for f in fragment(ip4 / UDP(sport=40000, dport=7) / (b"0123456789" * 20), fragsize=120)]
packets += [E / f for f in fragment6(ip6 / IPv6ExtHdrFragment(id=0xdeadbeef) / UDP(sport=40000, dport=7) / (b"0123456789" * 20), 160)]
roce = UDP(sport=0xc000, dport=4791, chksum=0)
packets += [
    E / ip4 / roce / BTH(opcode="RC_SEND_ONLY", migreq=1, padcount=0, pkey=0xffff, dqpn=0xd3, psn=7) / b"abcd",
    E / ip6 / roce / BTH(opcode="RC_ACKNOWLEDGE", migreq=1, dqpn=0x11, psn=13571856) / AETH(syndrome=0x1f, msn=5),
    E / ip4 / UDP(sport=0, dport=4791, chksum=0) / cnp(dqpn=0x118),
    E / IP(src="192.0.2.1", dst="192.0.2.2", flags="DF") / roce / BTH(opcode="RC_RDMA_WRITE_ONLY", padcount=2, dqpn=2, psn=1, ackreq=1)
      / bytes.fromhex("0000000010000000" "00001234" "00000006") / b"write!\0\0",
]
wrpcap("scapy.pcap", packets)
