// A server whose goroutines answer requests over TCP, contend for a mutex, and use timers.
package main

import (
	"net"
	"runtime"
	"sync"
	"time"
)

func spin(length time.Duration) {
	for start := time.Now(); time.Since(start) < length; {
	}
}

func answer(connection net.Conn, lock *sync.Mutex) {
	buffer := make([]byte, 64)
	for {
		count, err := connection.Read(buffer)
		if err != nil {
			return
		}
		spin(100 * time.Microsecond)
		lock.Lock()
		spin(20 * time.Microsecond)
		lock.Unlock()
		connection.Write(buffer[:count])
	}
}

func serve(listener net.Listener) {
	var lock sync.Mutex
	for {
		connection, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go answer(connection, &lock)
	}
}

func ask(address string, pause time.Duration) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		panic(err)
	}
	buffer := make([]byte, 64)
	for {
		time.Sleep(pause)
		connection.Write(buffer[:8])
		if _, err := connection.Read(buffer); err != nil {
			panic(err)
		}
	}
}

func main() {
	runtime.GOMAXPROCS(4)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go serve(listener)
	for client := 0; client < 4; client++ {
		go ask(listener.Addr().String(), time.Duration(3+client)*time.Millisecond)
	}
	time.Sleep(5 * time.Minute)
}
