// SPDX-License-Identifier: GPL-2.0-or-later

// Writes lines to an echo server and reads the echoes at the same time, on one connection.
//
//	client unix|tcp ADDRESS nodelay|nagle WARMUP MESSAGES      (ADDRESS: a path, or a port)
//
// After the warm-up it prints "ready" and waits for a line. Then it measures, prints one line of JSON
// and waits for the end of its input. The JSON has sent and echoed, numbers of messages; window_ns, from
// the first write to the last echo; and runtime, the version of Go.
package main

import (
	"bufio"
	"fmt"
	"log"
	"net"
	"os"
	"runtime"
	"strconv"
	"time"
)

const message = "HelloWorld\n"

func main() {
	log.SetFlags(0)
	if len(os.Args) != 6 {
		log.Fatal("usage: client unix|tcp ADDRESS nodelay|nagle WARMUP MESSAGES")
	}
	address := os.Args[2]
	if os.Args[1] == "tcp" {
		address = "127.0.0.1:" + address
	}
	conn, err := net.Dial(os.Args[1], address)
	if err != nil {
		log.Fatal(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := tcp.SetNoDelay(os.Args[3] == "nodelay"); err != nil {
			log.Fatal(err)
		}
	}
	reader := bufio.NewReader(conn)
	exchange(conn, reader, number(os.Args[4]))

	fmt.Println("ready")
	stdin := bufio.NewReader(os.Stdin)
	if _, err := stdin.ReadString('\n'); err != nil {
		log.Fatal("the input ended before the start")
	}
	messages := number(os.Args[5])
	start := time.Now()
	exchange(conn, reader, messages)
	fmt.Printf("{\"sent\": %d, \"echoed\": %d, \"window_ns\": %d, \"runtime\": %q}\n",
		messages, messages, time.Since(start).Nanoseconds(), runtime.Version())
	stdin.ReadString('\n') // a counter of this process needs it alive until then
}

// exchange returns when every message has come back. A wrong or missing message ends the program.
func exchange(conn net.Conn, reader *bufio.Reader, messages int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; i < messages; i++ {
			line, err := reader.ReadString('\n')
			if err != nil {
				log.Fatal(err)
			}
			if line != message {
				log.Fatalf("message %d came back as %q", i, line)
			}
		}
	}()
	for i := 0; i < messages; i++ {
		if _, err := conn.Write([]byte(message)); err != nil {
			log.Fatal(err)
		}
	}
	<-done
}

func number(text string) int {
	found, err := strconv.Atoi(text)
	if err != nil || found < 0 {
		log.Fatalf("%s is not a number of messages", text)
	}
	return found
}
