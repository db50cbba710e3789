use super::*;
use proptest::prelude::*;
use std::cell::Cell;
use std::rc::Rc;

/// A wait that returns the result chosen by the test.
struct Fake {
    wakes: Rc<Cell<Wake>>,
}

impl PeriodicWait for Fake {
    fn wait_until(&mut self, _: Instant) -> Result<Wake, Error> {
        Ok(self.wakes.get())
    }
}

const MS: u64 = 1_000_000;

/// The values of this clock are large even soon after boot, so a release can be an hour in the
/// past.
const CLOCK: Clock = Clock::Realtime;

/// Creates a loop on the real clock whose first release was `behind` ago.
fn behind(behind: Duration, period: Duration, policy: OverrunPolicy) -> Periodic<Fake> {
    let wakes = Rc::new(Cell::new(Wake::Due));
    let first = CLOCK.now().saturating_sub(behind);
    Periodic::with_wait(Fake { wakes }, CLOCK, first, period, policy).unwrap()
}

/// The period is so long that no second release passes during a test.
const LONG: Duration = Duration::from_secs(1_000);

#[test]
fn a_period_of_zero_is_refused() {
    let refused = Periodic::new(Duration::ZERO, OverrunPolicy::Skip);
    assert!(matches!(refused, Err(Error::IntervalZero)));
}

#[test]
fn skip_goes_on_at_the_next_release() {
    let mut periodic = behind(LONG * 3 + LONG / 2, LONG, OverrunPolicy::Skip);
    let first = periodic.next_release();
    let job = periodic.wait().unwrap().unwrap();
    // The releases at 0, 1000, 2000 and 3000 s have passed, so the job is the one released at 4000
    // s.
    assert_eq!(job.missed, 4);
    assert_eq!(job.release, first + LONG * 4);
    let account = periodic.account();
    assert_eq!((account.due, account.run, account.missed), (5, 1, 4));
    assert_eq!(account.late, 0);
}

#[test]
fn catch_up_runs_newest_and_counts_others() {
    let mut periodic = behind(LONG * 3 + LONG / 2, LONG, OverrunPolicy::CatchUp(2));
    let first = periodic.next_release();
    let missed: Vec<u64> = (0..3)
        .map(|number| {
            let job = periodic.wait().unwrap().unwrap();
            assert_eq!(job.release, first + LONG * (2 + number));
            job.missed
        })
        .collect();
    assert_eq!(missed, [2, 0, 0]);
    let account = periodic.account();
    assert_eq!((account.due, account.run, account.missed), (5, 3, 2));
    // The third job was on time.
    assert_eq!(account.late, 2);
}

#[test]
fn rephase_counts_from_the_overrun_on() {
    let mut periodic = behind(LONG * 2 + LONG / 2, LONG, OverrunPolicy::Rephase);
    let before = CLOCK.now();
    let job = periodic.wait().unwrap().unwrap();
    assert!(job.release >= before);
    assert_eq!(job.missed, 2);
    assert_eq!(periodic.next_release(), job.release + LONG);
    let account = periodic.account();
    assert_eq!(
        account,
        PeriodicAccount {
            due: 3,
            run: 1,
            missed: 2,
            late: 1
        }
    );
}

#[test]
fn interrupted_wait_continues_without_counting() {
    for policy in [
        OverrunPolicy::Skip,
        OverrunPolicy::CatchUp(1),
        OverrunPolicy::Rephase,
    ] {
        let mut periodic = behind(LONG + LONG / 2, LONG, policy);
        periodic.wait.wakes.set(Wake::Interrupted);
        assert_eq!(periodic.wait().unwrap(), None);
        assert_eq!(periodic.wait().unwrap(), None);
        periodic.wait.wakes.set(Wake::Due);
        let job = periodic.wait().unwrap().unwrap();
        let account = periodic.account();
        assert!(account.balances(), "{policy:?} {account:?}");
        assert_eq!(account.run, 1);
        assert_eq!(job.missed, account.missed, "{policy:?}");
    }
}

#[test]
fn external_phase_is_followed_without_lost_periods() {
    let period = Duration::from_millis(1);
    let wakes = Rc::new(Cell::new(Wake::Due));
    let first = Instant::from_nanos(u64::MAX / 4 / MS * MS);
    let mut periodic = Periodic::with_wait(
        Fake { wakes },
        Clock::Monotonic,
        first,
        period,
        OverrunPolicy::Skip,
    )
    .unwrap();
    let step = Duration::from_micros(10);
    // The edge is 25 us after a release: three steps, then in phase.
    let edge = Instant::from_nanos(7 * MS + 25_000);
    let errors: Vec<i64> = (0..4)
        .map(|_| periodic.follow(edge, Duration::ZERO, step))
        .collect();
    assert_eq!(errors, [25_000, 15_000, 5_000, 0]);
    assert_eq!(periodic.next_release(), first + Duration::from_micros(25));
    // A phase slightly before a release is an error of -5 us, not of nearly a period.
    let edge = Instant::from_nanos(9 * MS + 20_000);
    assert_eq!(periodic.follow(edge, Duration::ZERO, step), -5_000);
    assert_eq!(periodic.follow(edge, Duration::from_micros(5), step), 5_000);
    assert_eq!(periodic.account(), PeriodicAccount::default());
}

#[test]
fn a_real_loop_balances() {
    let period = Duration::from_millis(1);
    let mut periodic = Periodic::new(period, OverrunPolicy::Skip).unwrap();
    let mut last = Instant::default();
    let mut jobs = 0;
    while jobs < 20 {
        let Some(job) = periodic.wait().unwrap() else {
            continue;
        };
        assert!(job.start >= job.release && job.release > last);
        last = job.release;
        jobs += 1;
        assert!(periodic.account().balances());
    }
    assert_eq!(periodic.account().run, 20);
}

proptest! {
    /// The accounting balances for any elapsed time and any phase shift.
    #[test]
    fn it_balances(
        policy in prop_oneof![
            Just(OverrunPolicy::Skip),
            (0..5_u32).prop_map(OverrunPolicy::CatchUp),
            Just(OverrunPolicy::Rephase),
        ],
        turns in proptest::collection::vec((0..8_000_u64, -900_000..900_000_i64, any::<bool>()), 1..40),
    ) {
        let mut periodic = behind(Duration::ZERO, LONG, policy);
        for (back_s, shift, interrupted) in turns {
            // To simulate the passing of time, move the releases back instead of the clock forward.
            let back = i64::try_from(back_s * 1_000_000_000).unwrap();
            periodic.shift_phase(shift - back);
            let wake = if interrupted { Wake::Interrupted } else { Wake::Due };
            periodic.wait.wakes.set(wake);
            let _ = periodic.wait().unwrap();
            let account = periodic.account();
            prop_assert!(account.balances(), "{:?} {:?}", policy, account);
        }
    }
}
