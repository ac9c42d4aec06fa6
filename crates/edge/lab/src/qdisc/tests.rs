use super::*;

fn commands(backend: Backend, words: &str) -> String {
    let qdiscs = Qdiscs::of(backend, &words.parse().unwrap()).unwrap().unwrap();
    let commands = qdiscs.commands("wan", true).into_iter().map(|command| command.words + "\n");
    commands.collect::<String>().replace(" dev wan", "")
}

fn refused(backend: Backend, words: &str) -> String {
    Qdiscs::of(backend, &words.parse().unwrap()).unwrap_err()
}

#[test]
fn the_emulator_needs_no_queue_of_the_kernel() {
    let words = "rate=1G up=1s down=1s".parse().unwrap();
    assert_eq!(Qdiscs::of(Backend::Emulator, &words), Ok(None));
}

#[test]
fn a_token_bucket_has_the_framing_of_the_wire_and_the_queue_asked_for() {
    for (words, expected) in [
        (
            "link=ethernet:1G",
            "qdisc replace root handle 1: tbf rate 1000000000bit burst 65536 limit 1500000 \
             overhead 24 mpu 84 peakrate 1000gbit mtu 1600\n\
             qdisc replace parent 1:1 handle 5: pfifo limit 1000\n",
        ),
        // Each packet of 9,000 bytes has 14 of header in the queue.
        (
            "link=ethernet:10G,mtu=9000,vlan=1 queue=9MB",
            "qdisc replace root handle 1: tbf rate 10000000000bit burst 262144 limit 9000000 \
             overhead 28 mpu 84 peakrate 1000gbit mtu 9100\n\
             qdisc replace parent 1:1 handle 6: bfifo limit 9014000\n",
        ),
        // A rate of IP packets: the Ethernet header is not counted.
        (
            "rate=100M queue=50ms",
            "qdisc replace root handle 1: stab overhead -14 tbf rate 100000000bit burst 6553 \
             limit 625000 peakrate 1000gbit mtu 1600\n\
             qdisc replace parent 1:1 handle 6: bfifo limit 625000\n",
        ),
        (
            "link=ethernet:1G queue=100p discipline=codel ecn",
            "qdisc replace root handle 1: tbf rate 1000000000bit burst 65536 limit 150000 \
             overhead 24 mpu 84 peakrate 1000gbit mtu 1600\n\
             qdisc replace parent 1:1 handle 7: codel limit 100 target 5ms interval 100ms ecn\n",
        ),
        (
            "link=ethernet:1G queue=600p discipline=red",
            "qdisc replace root handle 1: tbf rate 1000000000bit burst 65536 limit 900000 \
             overhead 24 mpu 84 peakrate 1000gbit mtu 1600\n\
             qdisc replace parent 1:1 handle 8: red limit 900000 min 75000 max 225000 avpkt 1500 \
             burst 85 probability 0.1 bandwidth 1000000000bit\n",
        ),
    ] {
        assert_eq!(commands(Backend::Tbf, words), expected, "{words}");
    }
}

#[test]
fn an_htb_has_a_quantum_of_one_packet_and_a_bucket_that_its_timer_can_empty() {
    assert_eq!(
        commands(Backend::Htb, "link=ethernet:10G,mtu=9000"),
        "qdisc replace root handle 1: htb default 1\n\
         class replace parent 1: classid 1:1 htb rate 10000000000bit ceil 10000000000bit \
         burst 262144 cburst 262144 quantum 9100 overhead 24 mpu 84\n\
         qdisc replace parent 1:1 handle 5: pfifo limit 1000\n"
    );
}

#[test]
fn delay_and_loss_beside_a_shaper_are_a_netem_below_it() {
    // 10,417 packets of 1500 bytes wait for five quarters of the BDP, 4,167 are in flight, and one is being sent.
    assert_eq!(
        commands(Backend::Htb, "rate=1G rtt=100ms loss=1e-6"),
        "qdisc replace root handle 1: stab overhead -14 htb default 1\n\
         class replace parent 1: classid 1:1 htb rate 1000000000bit ceil 1000000000bit \
         burst 65536 cburst 65536 quantum 1600\n\
         qdisc replace parent 1:1 handle 4: netem limit 14585 delay 50ms loss random 0.0001% \
         corrupt 0% rate 0bit 0\n"
    );
    assert!(
        commands(Backend::Tbf, "rate=1G loss=1%")
            .ends_with("handle 4: netem limit 1001 loss random 1% corrupt 0% rate 0bit 0\n")
    );
}

#[test]
fn a_netem_has_room_for_what_is_on_its_way() {
    for (words, expected) in [
        ("", "netem limit 1000 corrupt 0% rate 0bit 0"),
        // 14.88 million frames a second.
        ("rtt=400ms", "netem limit 2976191 delay 200ms corrupt 0% rate 0bit 0"),
        // A queue of one BDP, half as much in flight, one being sent: 55,556 + 27,778 + 1.
        (
            "link=ethernet:10G,mtu=9000 rtt=400ms",
            "netem limit 97224 delay 200ms corrupt 0% rate 10000000000bit 24",
        ),
        ("rate=10M queue=15000B", "netem limit 11 corrupt 0% rate 10000000bit -14"),
        // Four standard deviations beyond the mean; order is kept by default.
        (
            "delay=10ms jitter=1ms",
            "netem limit 208334 delay 10ms 1ms distribution normal corrupt 0% rate 1000gbit 0",
        ),
        (
            "delay=10ms jitter=1ms dist=pareto order=free",
            "netem limit 208334 delay 10ms 1ms distribution pareto corrupt 0% rate 0bit 0",
        ),
        ("reorder=1%:5ms", "netem limit 74405 delay 5ms reorder 99% corrupt 0% rate 0bit 0"),
        (
            "loss=ge:0.01,0.1,0.2 corrupt=1e-6 duplicate=1%",
            "netem limit 1000 loss gemodel 1% 10% 80% 0% duplicate 1% corrupt 0.0001% rate 0bit 0",
        ),
    ] {
        let root = format!("qdisc replace root handle 1: {expected}\n");
        assert_eq!(commands(Backend::Netem, words), root, "{words}");
    }
}

#[test]
fn what_a_queue_of_the_kernel_cannot_do_is_named_with_what_can() {
    use Backend::{Htb, Netem, Tbf};
    for (backend, words, message) in [
        (
            Tbf,
            "rtt=10ms",
            "backend `tbf` needs a rate: give `rate` or a `link` with one, or use backend `netem`",
        ),
        (
            Netem,
            "loss=every:1000",
            "backend `netem` does not support `loss=every:1000`: use backend `emulator`, or leave it out",
        ),
        (
            Htb,
            "rate=1G up=1s down=1s",
            "backend `htb` does not support `up=1s`: use backend `emulator`, or leave it out",
        ),
        (
            Tbf,
            "link=ipoib:4X-FDR",
            "backend `tbf` does not support `link=ipoib:4X-FDR`, whose packets are padded and \
             fragmented differently: use backend `emulator`, or leave it out",
        ),
        (
            Netem,
            "rate=1G discipline=codel",
            "backend `netem` does not support `discipline=codel`: use backend `tbf`, `htb` or `emulator`, or \
             leave it out",
        ),
        (
            Netem,
            "rate=1G delay=10ms jitter=1ms order=free",
            "backend `netem` does not support `order=free` with a rate, which keeps packets in \
             order: use backend `tbf`, `htb` or `emulator`, or leave it out",
        ),
        (
            Htb,
            "rate=1G delay=10ms discipline=red",
            "backend `htb` does not support `discipline=red` with delays or losses, for which \
             netem is the queue: use backend `emulator`, or leave it out",
        ),
        (
            Netem,
            "delay=1ms reorder=1%:5ms",
            "backend `netem` does not support `reorder=0.01:5ms` with a delay or a number of \
             overtaking packets: use backend `emulator`, or leave it out",
        ),
        (
            Netem,
            "loss=1e-11",
            "backend `netem` does not support `loss=1e-11`, which is below its smallest \
             probability (2^-33): use backend `emulator`, or leave it out",
        ),
        (
            Netem,
            "coalesce=adaptive",
            "backend `netem` does not support `coalesce=adaptive`: use backend `emulator`, or leave it out",
        ),
    ] {
        assert_eq!(refused(backend, words), message);
    }
}

#[test]
fn a_change_leaves_the_root_of_an_htb_alone() {
    let qdiscs = |words: &str| Qdiscs::of(Backend::Htb, &words.parse().unwrap()).unwrap().unwrap();
    let (framed, faster, bare) =
        (qdiscs("link=ethernet:1G"), qdiscs("link=ethernet:2G"), qdiscs("rate=1G"));
    assert!(faster.can_follow(&framed) && !bare.can_follow(&framed));
    let commands = faster.commands("wan", false);
    assert!(commands[0].words.starts_with("class replace dev wan"), "{commands:?}");
    assert_eq!(commands.iter().map(|command| command.kind).collect::<Vec<_>>(), ["htb", "pfifo"]);
}
