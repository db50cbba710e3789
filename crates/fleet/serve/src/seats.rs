//! Simultaneous connections, whose number is limited in total and for each address. A client that
//! has shown a valid token keeps its connection. Other connections may be closed to admit new ones.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::config::Limits;

/// All connections, oldest first.
#[derive(Debug)]
pub(crate) struct Seats {
    total: usize,
    by_address: usize,
    /// Proxies, whose connections carry many clients.
    proxies: Vec<IpAddr>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    seats: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    from: IpAddr,
    is_known: bool,
    leave: Arc<Notify>,
}

/// The seat of one connection. Dropping it frees the seat.
#[derive(Debug)]
pub(crate) struct Seat {
    number: u64,
    leave: Arc<Notify>,
    seats: Arc<Seats>,
}

/// A connection could not be accepted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Seats {
    pub(crate) fn new(limits: &Limits, proxies: &[IpAddr]) -> Arc<Self> {
        Arc::new(Self {
            total: limits.connections,
            by_address: limits.connections_by_address,
            proxies: proxies.to_vec(),
            taken: Mutex::default(),
        })
    }

    /// Takes a seat. If the limit of the address is reached, its oldest connection without a token
    /// is closed. If the limit of the server is reached, this applies to the address with the most
    /// such connections.
    ///
    /// # Errors
    /// Returns [`Full`] if all connections that could be closed have shown a valid token.
    pub(crate) fn take(self: &Arc<Self>, from: IpAddr) -> Result<Seat, Full> {
        let from = from.to_canonical();
        let mut taken = self.lock();
        let own = (taken.seats.values())
            .filter(|one| one.from == from)
            .count();
        if own >= self.by_address && !self.proxies.contains(&from) {
            taken.close_oldest_of(from)?;
        } else if taken.seats.len() >= self.total {
            let crowded = taken.address_with_most().ok_or(Full)?;
            taken.close_oldest_of(crowded)?;
        }
        let number = taken.next;
        taken.next += 1;
        let leave = Arc::new(Notify::new());
        taken.seats.insert(
            number,
            Entry {
                from,
                is_known: false,
                leave: Arc::clone(&leave),
            },
        );
        Ok(Seat {
            number,
            leave,
            seats: Arc::clone(self),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Returns the address with the most connections without a token.
    fn address_with_most(&self) -> Option<IpAddr> {
        let mut counts = HashMap::new();
        for one in self.seats.values().filter(|one| !one.is_known) {
            *counts.entry(one.from).or_insert(0) += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        most.map(|(address, _)| address)
    }

    fn close_oldest_of(&mut self, from: IpAddr) -> Result<(), Full> {
        let mut unknown = self.seats.iter().filter(|(_, one)| !one.is_known);
        let oldest = unknown.find(|(_, one)| one.from == from);
        let oldest = oldest.map(|(number, _)| *number).ok_or(Full)?;
        if let Some(entry) = self.seats.remove(&oldest) {
            entry.leave.notify_one();
        }
        Ok(())
    }
}

impl Seat {
    /// Records that the client of this connection has shown a valid token.
    pub(crate) fn is_known(&self) {
        if let Some(entry) = self.seats.lock().seats.get_mut(&self.number) {
            entry.is_known = true;
        }
    }

    /// Waits until this connection must be closed to make room for another.
    pub(crate) async fn has_to_leave(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().seats.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(proxies: &[&str]) -> Arc<Seats> {
        let limits = Limits {
            connections: 6,
            connections_by_address: 4,
            ..Limits::default()
        };
        let proxies: Vec<IpAddr> = proxies.iter().map(|text| text.parse().unwrap()).collect();
        Seats::new(&limits, &proxies)
    }

    fn take(seats: &Arc<Seats>, from: &str) -> Result<Seat, Full> {
        seats.take(from.parse().unwrap())
    }

    fn is_open(seat: &Seat) -> bool {
        seat.seats.lock().seats.contains_key(&seat.number)
    }

    #[test]
    fn crowded_address_closes_its_oldest_connection() {
        let seats = seats(&[]);
        let other = take(&seats, "10.0.0.2").unwrap();
        let many: Vec<Seat> = (0..50).map(|_| take(&seats, "10.0.0.1").unwrap()).collect();
        assert!(is_open(&other));
        let open: Vec<bool> = many.iter().map(is_open).collect();
        assert_eq!(open.iter().filter(|open| **open).count(), 4);
        assert_eq!(open[46..], [true; 4]);
    }

    #[test]
    fn busiest_address_makes_room_for_others() {
        let seats = seats(&[]);
        let many: Vec<Seat> = (0..4).map(|_| take(&seats, "10.0.0.1").unwrap()).collect();
        let _two = [2, 3].map(|n| take(&seats, &format!("10.0.0.{n}")).unwrap());
        let late = take(&seats, "10.0.0.4").unwrap();
        assert!(is_open(&late) && !is_open(&many[0]) && is_open(&many[1]));
    }

    #[test]
    fn a_known_client_keeps_its_seat() {
        let seats = seats(&[]);
        let known: Vec<Seat> = (0..4).map(|_| take(&seats, "10.0.0.1").unwrap()).collect();
        known.iter().for_each(Seat::is_known);
        assert_eq!(take(&seats, "10.0.0.1").unwrap_err(), Full);
        let flood: Vec<Seat> = (0..99).map(|_| take(&seats, "10.0.0.2").unwrap()).collect();
        assert!(known.iter().all(is_open));
        drop(flood);
        drop(known);
        assert!(seats.lock().seats.is_empty());
    }

    #[test]
    fn proxy_may_hold_many_clients_connections() {
        let seats = seats(&["10.0.0.9"]);
        let many: Vec<Seat> = (0..6).map(|_| take(&seats, "10.0.0.9").unwrap()).collect();
        assert!(many.iter().all(is_open));
        // An IPv6-mapped address is the same address.
        let next = take(&seats, "::ffff:10.0.0.9").unwrap();
        assert!(is_open(&next) && !is_open(&many[0]));
    }
}
