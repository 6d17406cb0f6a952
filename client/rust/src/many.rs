//! Runs the requests of one call on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

/// Calls `work` with 0 to `num - 1`, at most `concurrency` calls at a time. Returns the results in this order, or the
/// first error; after an error, no further calls begin. If `work` panics, this function panics. If the system refuses
/// more threads, fewer calls run at a time.
pub(crate) fn in_parallel<T: Send, E: Send>(
    num: usize,
    concurrency: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let run = || {
        let mut done = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= num {
                return done;
            }
            match work(i) {
                Ok(result) => done.push((i, result)),
                Err(error) => {
                    next.store(num, Ordering::Relaxed);
                    failure.lock().unwrap_or_else(|broken| broken.into_inner()).get_or_insert(error);
                }
            }
        }
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..concurrency.min(num))
            .map_while(|_| thread::Builder::new().name("maxsim-rerank".into()).spawn_scoped(scope, run).ok())
            .collect();
        let mut done = run();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(|broken| broken.into_inner()) {
        return Err(error);
    }
    done.sort_by_key(|(i, _)| *i);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn results_have_the_order_of_the_calls() {
        for concurrency in [1, 2, 7, 8, 9] {
            let found: Result<Vec<usize>, ()> = in_parallel(8, concurrency, |i| Ok(10 * i));
            assert_eq!(found.unwrap(), [0, 10, 20, 30, 40, 50, 60, 70]);
        }
    }

    #[test]
    fn as_many_calls_run_at_a_time_as_are_permitted() {
        // Each call waits until another one runs, so this ends only if two run at a time.
        let meeting = Barrier::new(2);
        let found: Result<Vec<usize>, ()> = in_parallel(4, 2, |i| {
            meeting.wait();
            Ok(i)
        });
        assert_eq!(found.unwrap(), [0, 1, 2, 3]);
    }

    #[test]
    fn after_an_error_no_further_calls_begin() {
        let num_calls = AtomicUsize::new(0);
        let found = in_parallel(100, 1, |i| {
            num_calls.fetch_add(1, Ordering::Relaxed);
            if i == 3 {
                Err("refused")
            } else {
                Ok(i)
            }
        });
        assert_eq!(found, Err("refused"));
        assert_eq!(num_calls.into_inner(), 4);
    }
}
