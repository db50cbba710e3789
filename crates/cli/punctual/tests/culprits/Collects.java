import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/** A periodic loop, and a thread that collects garbage ten times a second. */
public class Collects {
    static volatile Object sink;

    public static void main(String[] arguments) {
        List<byte[]> live = new ArrayList<>();
        for (int i = 0; i < 200_000; i++) {
            live.add(new byte[100]);
        }
        Thread collects = new Thread(() -> {
            for (;;) {
                LockSupport.parkNanos(100_000_000);
                System.gc();
            }
        }, "collects");
        collects.setDaemon(true);
        collects.start();
        System.out.println("runs");
        for (;;) {
            LockSupport.parkNanos(3_000_000);
            for (long end = System.nanoTime() + 2_000_000; System.nanoTime() < end;) {
                sink = new byte[100];
            }
            if (live.isEmpty()) {
                return;
            }
        }
    }
}
