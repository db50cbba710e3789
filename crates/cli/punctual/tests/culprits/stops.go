// A goroutine with its own thread sleeps in clock_nanosleep. Another one makes the runtime stop all
// goroutines: with `collect` by a garbage collection, with `stats` to read statistics, with `none`
// not at all. A third one computes for a few milliseconds without a function call. With
// GODEBUG=asyncpreemptoff=1 it cannot be preempted meanwhile, so that each stop lasts that long.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
	"unsafe"
)

var sum uint64

func compute() {
	for {
		all := sum
		for i := uint64(0); i < 8_000_000; i++ {
			all = all*31 + i
		}
		sum = all
		runtime.Gosched()
	}
}

func tick() {
	runtime.LockOSThread()
	wait := syscall.Timespec{Nsec: 2_000_000}
	for {
		// Calls through this function tell the runtime that the thread is in a system call.
		syscall.Syscall6(syscall.SYS_CLOCK_NANOSLEEP, 1, 0,
			uintptr(unsafe.Pointer(&wait)), 0, 0, 0)
	}
}

func main() {
	debug.SetGCPercent(-1)
	go compute()
	go tick()
	fmt.Println("runs")
	for {
		time.Sleep(5 * time.Millisecond)
		switch os.Args[1] {
		case "collect":
			runtime.GC()
		case "stats":
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
		}
	}
}
