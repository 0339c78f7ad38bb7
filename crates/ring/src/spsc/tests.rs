//! The ring against a `VecDeque`, against a second thread, and against a peer that lies.

use super::*;
use core::ptr::NonNull;
use proptest::prelude::*;
use std::collections::VecDeque;

/// Zeroed memory aligned as a mapped page would be.
struct Area {
    layout: std::alloc::Layout,
    base: NonNull<u8>,
}

impl Area {
    fn new(capacity: usize) -> Self {
        let layout = std::alloc::Layout::from_size_align(area_len(capacity), 128).unwrap();
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).unwrap();
        Self { layout, base }
    }

    fn pair(&self) -> (Producer, Consumer) {
        // SAFETY: the tests keep the area alive beyond the pair, which is its only user but for `word`.
        unsafe {
            let producer = Producer::attach(self.base, self.layout.size()).unwrap();
            (producer, Consumer::attach(self.base, self.layout.size()).unwrap())
        }
    }

    /// Any word, as a hostile peer reaches it.
    fn word(&self, offset: usize) -> &core::sync::atomic::AtomicU64 {
        assert!(offset + WORD <= self.layout.size());
        // SAFETY: in range and aligned; atomics like the ring's own.
        unsafe { self.base.add(offset).cast().as_ref() }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), self.layout) }
    }
}

#[test]
fn refuses_areas_that_cannot_hold_a_ring() {
    let area = Area::new(4096);
    for (shift, len) in [(0, 0), (0, 100), (0, area_len(3000)), (8, area_len(1024)), (0, area_len(16))] {
        // SAFETY: refused before use, and inside the allocation anyway.
        let refused = unsafe { Producer::attach(area.base.add(shift), len) };
        assert_eq!(refused.err(), Some(BadArea), "{shift} {len}");
    }
}

#[test]
fn the_longest_record_fits_wherever_the_cursor_stands() {
    let area = Area::new(256);
    let (mut producer, mut consumer) = area.pair();
    let longest = vec![7; producer.record_len_max()];
    let mut out = Vec::new();
    for step in 0..200 {
        producer.try_push(&[&vec![1; step % 23]]).unwrap();
        assert!(consumer.pop_into(&mut out).unwrap());
        producer.try_push(&[&longest]).unwrap();
        assert!(consumer.pop_into(&mut out).unwrap());
        assert_eq!(out, longest);
    }
    let too_long = [&longest[..], &[0]];
    assert_eq!(producer.try_push(&too_long), Err(PushError::TooLong { len: 121, max: 120 }));
}

proptest! {
    #[test]
    fn behaves_as_a_queue(steps in proptest::collection::vec((any::<bool>(), 0_usize..140, any::<u8>()), 1..400)) {
        let area = Area::new(256);
        let (mut producer, mut consumer) = area.pair();
        let mut oracle = VecDeque::new();
        let mut out = Vec::new();
        for (push, len, byte) in steps {
            if push {
                let record = vec![byte; len];
                let (first, second) = record.split_at(len / 3);
                match producer.try_push(&[first, second]) {
                    Ok(()) => oracle.push_back(record),
                    Err(PushError::Full) => prop_assert!(!oracle.is_empty(), "an empty ring takes any record"),
                    Err(PushError::TooLong { .. }) => prop_assert!(len > producer.record_len_max()),
                    Err(error) => prop_assert!(false, "{error}"),
                }
            } else {
                let popped = consumer.pop_into(&mut out).unwrap();
                prop_assert_eq!(popped.then(|| out.clone()), oracle.pop_front());
            }
            prop_assert_eq!(consumer.is_empty(), oracle.is_empty());
        }
    }

    #[test]
    fn a_lying_producer_is_told_apart_and_nothing_is_read_out_of_range(
        word in any::<u64>(), tag in 0_u64..4, len in 0_u64..300, raw in any::<bool>(), at in 0_usize..32,
    ) {
        let area = Area::new(256);
        let (mut producer, mut consumer) = area.pair();
        let mut out = Vec::new();
        for _ in 0..at {
            producer.try_push(&[]).unwrap();
            consumer.pop_into(&mut out).unwrap();
        }
        let word = if raw { word } else { tag << 32 | len };
        area.word(DATA_OFFSET + at * WORD % 256).store(word, Release);
        match consumer.pop_into(&mut out) {
            Ok(false) => prop_assert_eq!(word, 0),
            Ok(true) => prop_assert!(out.len() <= producer.record_len_max()),
            Err(Corrupt) => prop_assert_eq!(consumer.pop_into(&mut out), Err(Corrupt)),
        }
    }

    #[test]
    fn a_lying_consumer_cannot_make_the_producer_overrun(head in any::<u64>(), near in 0_u64..600, raw in any::<bool>()) {
        let area = Area::new(256);
        let (mut producer, _consumer) = area.pair();
        while producer.try_push(&[&[1; 20]]).is_ok() {}
        let head = if raw { head } else { near };
        area.word(0).store(head, Release);
        let honest = head <= producer.tail && head % 8 == 0;
        match producer.try_push(&[&[1; 20]]) {
            Ok(()) | Err(PushError::Full) => prop_assert!(honest),
            Err(PushError::Corrupt(_)) => prop_assert!(!honest),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}

#[test]
fn wrap_at_the_start_is_corrupt_not_a_loop() {
    let area = Area::new(256);
    let (_producer, mut consumer) = area.pair();
    area.word(DATA_OFFSET).store(WRAP, Release);
    assert_eq!(consumer.pop_into(&mut Vec::new()), Err(Corrupt));
}

#[test]
fn an_uncommitted_record_is_invisible() {
    let area = Area::new(256);
    let (producer, mut consumer) = area.pair();
    // What a producer killed before its last store leaves.
    producer.ring.memory.write(WORD, &[9; 64]);
    assert!(consumer.is_empty());
    assert_eq!(consumer.pop_into(&mut Vec::new()), Ok(false));
}

#[test]
fn two_threads_exchange_every_record_in_order() {
    const RECORDS: u64 = if cfg!(miri) { 200 } else { 300_000 };
    let area = Area::new(4096);
    let (mut producer, mut consumer) = area.pair();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..RECORDS {
                let filler = vec![number as u8; (number * 7 % 300) as usize];
                while let Err(error) = producer.try_push(&[&number.to_le_bytes(), &filler]) {
                    assert_eq!(error, PushError::Full);
                    std::thread::yield_now();
                }
            }
        });
        let mut record = Vec::new();
        for number in 0..RECORDS {
            while !consumer.pop_into(&mut record).unwrap() {
                std::thread::yield_now();
            }
            let (head, filler) = record.split_at(8);
            assert_eq!(head, number.to_le_bytes());
            assert_eq!(filler.len() as u64, number * 7 % 300);
            assert!(filler.iter().all(|byte| *byte == number as u8));
        }
        assert!(consumer.is_empty());
    });
}
