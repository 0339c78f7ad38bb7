//! Every interleaving of one producer and one consumer over a ring small enough to wrap.

use super::*;

fn drain(consumer: &mut Consumer, want: u8) {
    let mut record = Vec::new();
    let mut next = 0;
    while next < want {
        if consumer.pop_into(&mut record).unwrap() {
            assert_eq!(record, vec![next; usize::from(next % 3) * 4 + 1]);
            next += 1;
        } else {
            loom::thread::yield_now();
        }
    }
    assert!(consumer.is_empty());
}

fn push(producer: &mut Producer, value: u8) -> Result<(), PushError> {
    let bytes = vec![value; usize::from(value % 3) * 4 + 1];
    let (first, second) = bytes.split_at(bytes.len() / 2);
    producer.try_push(&[first, second])
}

#[test]
fn records_arrive_whole_and_in_order() {
    loom::model(|| {
        let (mut producer, mut consumer) = model_pair(64);
        let sender = loom::thread::spawn(move || {
            for value in 0..3 {
                push(&mut producer, value).unwrap();
            }
        });
        drain(&mut consumer, 3);
        sender.join().unwrap();
    });
}

#[test]
fn a_full_ring_hands_bytes_back_before_they_are_overwritten() {
    loom::model(|| {
        let (mut producer, mut consumer) = model_pair(64);
        let sender = loom::thread::spawn(move || {
            for value in 0..4 {
                while let Err(error) = push(&mut producer, value) {
                    assert_eq!(error, PushError::Full);
                    loom::thread::yield_now();
                }
            }
        });
        drain(&mut consumer, 4);
        sender.join().unwrap();
    });
}
