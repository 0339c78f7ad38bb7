//! What threads and an inspector share without a lock, in every interleaving that loom finds. Beside what must hold stand
//! the same steps with one left out, to show that the model would see it.

use std::collections::VecDeque;

use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::context::{ContextMemory, Layout, OBJECT_LEN};
use crate::doorbell::Doorbells;
use crate::fields::Fields;
use crate::object::{self, Head, Kind};
use crate::overlap::Underway;
use crate::qpc::{self, Field};
use crate::recorder::Recorder;
use crate::sync::{AtomicU64, Ordering, fence};
use crate::waiting::Waiting;
use crate::{driver, table};
use glassnic_wire::command::{CommandOpcode, CommandRecord};

/// Threads that are interrupted more often show nothing new, and take days.
const SWITCHES: usize = 3;

fn explore(scene: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(SWITCHES));
    model.check(scene);
}

/// A context cut behind its GID: what is left has the sequence word, and a value of two words that can be torn.
const WORDS: usize = 10;
const SEQUENCE: usize = 7;

fn context() -> Arc<Vec<AtomicU64>> {
    Arc::new((0..WORDS).map(|_| AtomicU64::new(0)).collect())
}

/// The modify that writes this number everywhere.
fn modify(words: &[AtomicU64], number: u8) {
    let mut image = qpc::Image::default();
    image.set_dgid([number; 16]);
    image.store(words, 1);
}

/// The number of a context that is whole.
fn whole(image: &qpc::Image) -> u8 {
    let gid = image.dgid();
    assert_eq!(gid, [gid[0]; 16], "torn");
    gid[0]
}

mod a_context {
    use super::*;

    #[test]
    fn is_read_whole_or_not_at_all() {
        explore(|| {
            let words = context();
            let device = words.clone();
            let writer = thread::spawn(move || {
                modify(&device, 1);
                modify(&device, 2);
            });
            let first = qpc::Image::load(&words, 2).map(|image| whole(&image));
            let second = qpc::Image::load(&words, 1).map(|image| whole(&image));
            assert!(first.is_none() || second.is_none() || first <= second, "back in time");
            writer.join().unwrap();
            assert_eq!(qpc::Image::load(&words, 1).map(|image| whole(&image)), Some(2));
        });
    }

    #[test]
    fn is_whole_over_its_lines() {
        explore(|| {
            let words = context();
            let device = words.clone();
            let writer = thread::spawn(move || {
                let mut image = qpc::Image::default();
                image.set(Field::Qpn, 1);
                image.set(Field::Qkey, 1);
                image.set_dgid([1; 16]);
                image.store(&device, 0);
            });
            if let Some(image) = qpc::Image::load(&words, 1) {
                let number = u64::from(whole(&image));
                assert_eq!((image.get(Field::Qpn), image.get(Field::Qkey)), (number, number));
            }
            writer.join().unwrap();
        });
    }

    /// Two threads modify a QP, each under the device's lock, and somebody outside looks.
    #[test]
    fn is_never_torn_by_two_modifies() {
        explore(|| {
            let (words, device) = (context(), Arc::new(Mutex::new(())));
            let threads = [1, 2].map(|number| {
                let (words, device) = (words.clone(), device.clone());
                thread::spawn(move || {
                    let _held = device.lock().unwrap();
                    modify(&words, number);
                })
            });
            if let Some(image) = qpc::Image::load(&words, 1) {
                whole(&image);
            }
            for thread in threads {
                thread.join().unwrap();
            }
            let last = qpc::Image::load(&words, 1).unwrap();
            assert!(whole(&last) > 0);
            assert_eq!(last.get(Field::Sequence), 4, "both were made");
        });
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn is_torn_by_two_modifies_without_the_lock() {
        explore(|| {
            let words = context();
            let threads = [1, 2].map(|number| {
                let words = words.clone();
                thread::spawn(move || modify(&words, number))
            });
            for thread in threads {
                thread.join().unwrap();
            }
            if let Some(image) = qpc::Image::load(&words, 1) {
                whole(&image);
            }
        });
    }

    /// A writer or a reader that leaves out a step.
    #[derive(Clone, Copy, PartialEq)]
    enum Without {
        OddMark,
        WriterFence,
        EvenRelease,
        SecondLook,
        ReaderFence,
    }

    fn store(words: &[AtomicU64], without: Without) {
        let sequence = &words[SEQUENCE];
        if without != Without::OddMark {
            sequence.store(1, Ordering::Relaxed);
        }
        if without != Without::WriterFence {
            fence(Ordering::Release);
        }
        for word in &words[8..] {
            word.store(u64::MAX, Ordering::Relaxed);
        }
        let order = if without == Without::EvenRelease { Ordering::Relaxed } else { Ordering::Release };
        sequence.store(2, order);
    }

    fn load(words: &[AtomicU64], without: Without) -> Option<[u64; 2]> {
        let before = words[SEQUENCE].load(Ordering::Acquire);
        if before & 1 == 1 {
            return None;
        }
        let seen = [8, 9].map(|word: usize| words[word].load(Ordering::Relaxed));
        if without != Without::ReaderFence {
            fence(Ordering::Acquire);
        }
        (without == Without::SecondLook || words[SEQUENCE].load(Ordering::Relaxed) == before).then_some(seen)
    }

    fn is_torn_without(step: Without) {
        explore(move || {
            let words = context();
            let device = words.clone();
            let writer = thread::spawn(move || store(&device, step));
            if let Some([one, other]) = load(&words, step) {
                assert_eq!(one, other, "torn");
            }
            writer.join().unwrap();
        });
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn is_torn_without_the_odd_mark() {
        is_torn_without(Without::OddMark);
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn is_torn_without_the_writers_fence() {
        is_torn_without(Without::WriterFence);
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn is_torn_without_the_release_at_the_end() {
        is_torn_without(Without::EvenRelease);
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn is_torn_without_a_second_look() {
        is_torn_without(Without::SecondLook);
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn is_torn_without_the_readers_fence() {
        is_torn_without(Without::ReaderFence);
    }
}

mod a_drivers_block {
    use super::*;
    use driver::{Block, Field, Image};

    fn refused_from_outside(check: impl Fn(&Image) + Sync + Send + 'static) {
        explore(move || {
            let memory = ContextMemory::private(Layout::bare(1, 0));
            let block = Block::new(memory.clone(), 0);
            let writer = thread::spawn(move || {
                block.store_pair(Field::Refused, 1, 7);
                block.store(Field::RefusedNs, 100);
            });
            check(&Image::load(&memory, 0));
            writer.join().unwrap();
        });
    }

    #[test]
    fn holds_whole_words() {
        refused_from_outside(|seen| {
            let pair = (seen.get(Field::Refused), seen.get(Field::RefusedCall));
            assert!([(0, 0), (1, 7)].contains(&pair), "torn: {pair:?}");
        });
    }

    /// What its documentation says of it: what has to be of one time must stand in one word.
    #[test]
    #[should_panic(expected = "between two calls")]
    fn may_be_between_two_calls() {
        refused_from_outside(|seen| {
            let both = (seen.get(Field::Refused), seen.get(Field::RefusedNs));
            assert!([(0, 0), (1, 100)].contains(&both), "between two calls");
        });
    }
}

mod an_object {
    use super::*;
    use object::Ah;

    /// Two handles of one entry.
    const HANDLES: [u32; 2] = [1 << 20, 2 << 20];

    fn memory() -> ContextMemory {
        let mut layout = Layout { site_slots: 1, ..Layout::bare(0, 0) };
        layout.object_slots[Kind::Ah as usize] = 1;
        ContextMemory::private(layout)
    }

    fn create(memory: &ContextMemory, handle: u32, site: u32) {
        let mut image = object::Image::default();
        image.set_gid(Ah::Dgid, [(handle >> 20) as u8; 16]).set(Head::Site, site.into());
        image.store(memory, Kind::Ah, handle);
    }

    fn look(memory: &ContextMemory) {
        let Some(seen) = object::Image::load(memory, Kind::Ah, 0) else { return };
        assert_eq!(seen.gid(Ah::Dgid), [(seen.get(Head::Handle) >> 20) as u8; 16], "torn");
    }

    #[test]
    fn is_seen_whole_while_its_entry_changes_hands() {
        assert_eq!(HANDLES.map(table::index_of), [0, 0]);
        explore(|| {
            let memory = memory();
            create(&memory, HANDLES[0], 0);
            let device = memory.clone();
            let writer = thread::spawn(move || {
                object::clear(&device, Kind::Ah, HANDLES[0]);
                create(&device, HANDLES[1], 0);
            });
            look(&memory);
            writer.join().unwrap();
            assert!(object::Image::load(&memory, Kind::Ah, 0).is_some());
        });
    }

    #[test]
    fn has_its_site_when_it_is_seen() {
        explore(|| {
            let memory = memory();
            let device = memory.clone();
            let writer = thread::spawn(move || {
                let site = device.site(9, || "at main".into()).unwrap();
                create(&device, HANDLES[0], site);
            });
            if memory.high(Kind::Ah) > 0 {
                let seen = object::Image::load(&memory, Kind::Ah, 0).expect("it was counted");
                let text = memory.site_text(seen.get(Head::Site) as u32);
                assert_eq!(text.as_deref(), Some("at main"));
            }
            writer.join().unwrap();
        });
    }

    #[test]
    #[should_panic(expected = "it was counted")]
    fn is_missed_where_it_is_counted_first() {
        explore(|| {
            let memory = memory();
            let device = memory.clone();
            let writer = thread::spawn(move || {
                device.raise_high(Kind::Ah, 1);
                create(&device, HANDLES[0], 0);
            });
            if memory.high(Kind::Ah) > 0 {
                object::Image::load(&memory, Kind::Ah, 0).expect("it was counted");
            }
            writer.join().unwrap();
        });
    }

    /// Gives an entry to another handle, without a step of `clear` and `store`.
    fn is_torn(give: impl Fn(&[AtomicU64], [u64; OBJECT_LEN / 8]) + Copy + Sync + Send + 'static) {
        explore(move || {
            let memory = memory();
            create(&memory, HANDLES[0], 0);
            let device = memory.clone();
            let writer = thread::spawn(move || {
                let mut words = [0; OBJECT_LEN / 8];
                words[0] = HANDLES[1].into();
                words[Ah::Dgid.info().offset / 8] = 0x0202_0202_0202_0202;
                words[Ah::Dgid.info().offset / 8 + 1] = 0x0202_0202_0202_0202;
                give(device.object(Kind::Ah, 0).unwrap(), words);
            });
            look(&memory);
            writer.join().unwrap();
        });
    }

    fn write(to: &[AtomicU64], words: &[u64]) {
        for (to, word) in to.iter().zip(words) {
            to.store(*word, Ordering::Relaxed);
        }
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn is_torn_where_its_handle_comes_first() {
        is_torn(|to, words| {
            to[0].store(0, Ordering::Relaxed);
            fence(Ordering::Release);
            to[0].store(words[0], Ordering::Release);
            write(&to[1..], &words[1..]);
        });
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn is_torn_where_the_old_handle_stays_until_the_end() {
        is_torn(|to, words| {
            write(&to[1..], &words[1..]);
            to[0].store(words[0], Ordering::Release);
        });
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn is_torn_without_the_fence_of_clear() {
        is_torn(|to, words| {
            to[0].store(0, Ordering::Relaxed);
            write(&to[1..], &words[1..]);
            to[0].store(words[0], Ordering::Release);
        });
    }
}

mod the_recorder {
    use super::*;

    fn keep(recorder: &Recorder, number: u32) {
        let mut record = CommandRecord::new(CommandOpcode::QueryQp);
        record.set_qpn(number);
        record.set_pd(number);
        recorder.keep(number.into(), record);
    }

    #[test]
    fn gives_whole_records_while_it_goes_round() {
        explore(|| {
            let recorder = Recorder::new(ContextMemory::private(Layout::bare(0, 1)));
            keep(&recorder, 1);
            let device = recorder.clone();
            let writer = thread::spawn(move || keep(&device, 2));
            for record in recorder.read(1) {
                let number = record.seq();
                let all = [record.qpn().into(), record.pd().into(), record.timestamp_ns()];
                assert_eq!(all, [number; 3], "torn");
            }
            writer.join().unwrap();
            assert_eq!(recorder.read(1).len(), 1);
        });
    }

    /// The slot's words are of two records while its number is still that of the first.
    #[test]
    #[should_panic(expected = "torn")]
    fn would_give_torn_ones_if_a_slot_kept_its_number() {
        explore(|| {
            let memory = ContextMemory::private(Layout::bare(0, 1));
            let recorder = Recorder::new(memory.clone());
            keep(&recorder, 1);
            let writer = thread::spawn(move || {
                let mut record = CommandRecord::new(CommandOpcode::QueryQp);
                record.set_qpn(2);
                record.set_pd(2);
                record.set_seq(2);
                for (word, value) in memory.recorder(0).unwrap().iter().zip(record.to_bytes().as_chunks().0) {
                    word.store(u64::from_le_bytes(*value), Ordering::Release);
                }
            });
            for record in recorder.read(1) {
                assert_eq!((record.qpn(), record.pd()), (record.seq() as u32, record.seq() as u32), "torn");
            }
            writer.join().unwrap();
        });
    }
}

mod doorbells {
    use super::*;

    /// Posts, then rings, in the order that is given.
    fn post(posted_first: bool) {
        explore(move || {
            let bells = Arc::new(Doorbells::new(2));
            let posted = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let posters = [0, 1].map(|slot| {
                let (bells, posted) = (bells.clone(), posted.clone());
                thread::spawn(move || {
                    if posted_first {
                        posted[slot].store(1, Ordering::Relaxed);
                    }
                    bells.ring(slot as u32);
                    if !posted_first {
                        posted[slot].store(1, Ordering::Relaxed);
                    }
                })
            });
            let mut taken = [false; 2];
            let mut take = || {
                bells.take(|slot| {
                    assert_eq!(posted[slot as usize].load(Ordering::Relaxed), 1, "rung for nothing");
                    taken[slot as usize] = true;
                });
            };
            take();
            for poster in posters {
                poster.join().unwrap();
            }
            take();
            assert_eq!(taken, [true; 2], "a ring was lost");
        });
    }

    #[test]
    fn are_never_lost_and_never_early() {
        post(true);
    }

    #[test]
    #[should_panic(expected = "rung for nothing")]
    fn are_early_where_they_ring_before_the_post() {
        post(false);
    }
}

mod two_modifies {
    use super::*;

    /// Neither ends: whoever comes second is there with the first.
    #[test]
    fn know_of_each_other() {
        explore(|| {
            let underway = Arc::new(Underway::default());
            let threads = [1, 2].map(|me| {
                let underway = underway.clone();
                thread::spawn(move || {
                    let begun = underway.begin(me);
                    let met = begun.met();
                    std::mem::forget(begun);
                    met
                })
            });
            let met = threads.map(|thread| thread.join().unwrap());
            assert!([[Some(2), None], [None, Some(1)]].contains(&met), "{met:?}");
        });
    }

    #[test]
    #[should_panic(expected = "neither knows")]
    fn would_not_know_if_looking_and_marking_were_two_steps() {
        explore(|| {
            let underway = Arc::new(AtomicU64::new(0));
            let threads = [1, 2].map(|me| {
                let underway = underway.clone();
                thread::spawn(move || {
                    let met = underway.load(Ordering::Acquire);
                    underway.store(me, Ordering::Release);
                    met
                })
            });
            let met = threads.map(|thread| thread.join().unwrap());
            assert!(met[0] == 2 || met[1] == 1, "neither knows");
        });
    }

    #[test]
    fn leave_nothing_behind_and_meet_nobody_afterwards() {
        explore(|| {
            let underway = Arc::new(Underway::default());
            let threads = [1, 2].map(|me| {
                let underway = underway.clone();
                thread::spawn(move || drop(underway.begin(me)))
            });
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(underway.begin(3).met(), None);
        });
    }
}

mod commands_that_wait {
    use super::*;

    /// Executes what waits, as the holder of the device.
    fn step(waiting: &Waiting<u32>, done: &Mutex<Vec<u32>>) {
        let mut done = done.lock().unwrap();
        done.extend(waiting.take());
    }

    #[test]
    fn are_executed_once_each_before_their_giver_goes_on() {
        explore(|| {
            let (waiting, done) = (Arc::new(Waiting::default()), Arc::new(Mutex::new(Vec::new())));
            let givers = [10, 20].map(|first| {
                let (waiting, done) = (waiting.clone(), done.clone());
                thread::spawn(move || {
                    waiting.push(first);
                    waiting.push(first + 1);
                    step(&waiting, &done);
                    let done = done.lock().unwrap();
                    let own: Vec<_> = done.iter().filter(|n| **n / 10 == first / 10).copied().collect();
                    assert_eq!(own, [first, first + 1], "overtaken");
                })
            });
            for giver in givers {
                giver.join().unwrap();
            }
            assert_eq!(done.lock().unwrap().len(), 4);
            assert!(waiting.take().is_empty());
        });
    }

    /// If whoever takes them did not hold the device, a giver could go on while another still has its command in hand.
    #[test]
    #[should_panic(expected = "overtaken")]
    fn would_be_overtaken_by_one_that_does_not_hold_the_device() {
        explore(|| {
            let (waiting, done) = (Arc::new(Waiting::default()), Arc::new(Mutex::new(Vec::new())));
            let (theirs, results) = (waiting.clone(), done.clone());
            let other = thread::spawn(move || {
                let taken: VecDeque<u32> = theirs.take();
                results.lock().unwrap().extend(taken);
            });
            waiting.push(1);
            step(&waiting, &done);
            assert_eq!(*done.lock().unwrap(), [1], "overtaken");
            other.join().unwrap();
        });
    }
}
