use super::bpf::{ROWS_BYTES, comm_rows};
use super::layout::Row;

#[test]
fn rows_fit_the_memory_that_is_allowed() {
    for cpus in [1, 2, 64, 128] {
        let bytes = comm_rows(cpus) as usize * cpus * size_of::<Row>();
        assert!(
            bytes <= ROWS_BYTES.max(16 * cpus * size_of::<Row>()),
            "{cpus}"
        );
    }
}
