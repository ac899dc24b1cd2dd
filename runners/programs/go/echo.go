// SPDX-License-Identifier: GPL-2.0-or-later

// An echo server on a loopback port and on a Unix socket, and its client, on one connection.
//
//	afecho server PORT PATH
//	afecho unix|tcp ADDRESS nodelay|nagle WARMUP MESSAGES      (ADDRESS: a path, or a port)
//
// As the article's, the server reads through a buffer and sends each line back on its own. Go switches
// Nagle's algorithm off on every TCP connection; the client may switch it on. The client writes lines and
// reads the echoes at the same time. After the warm-up it prints "ready" and waits for a line. Then it
// measures, prints one line of JSON and waits for the end of its input. The JSON has sent and echoed,
// numbers of messages; window_ns, from the first write to the last echo; and runtime, the version of Go.
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

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	log.SetFlags(0)
	if len(os.Args) == 4 {
		go serve("tcp", "127.0.0.1:"+os.Args[2])
		serve("unix", os.Args[3])
	}
	if len(os.Args) != 6 {
		log.Fatal("usage: afecho server PORT PATH | afecho unix|tcp ADDRESS nodelay|nagle WARMUP MESSAGES")
	}
	warmup, err := strconv.Atoi(os.Args[4])
	must(err)
	messages, err := strconv.Atoi(os.Args[5])
	must(err)
	measure(os.Args[1], os.Args[2], os.Args[3] == "nodelay", warmup, messages)
}

func serve(network, address string) {
	listener, err := net.Listen(network, address)
	must(err)
	for {
		conn, err := listener.Accept()
		must(err)
		go echo(conn)
	}
}

// echo ends with its connection. The client reports errors.
func echo(conn net.Conn) {
	defer conn.Close()
	reader, writer := bufio.NewReader(conn), bufio.NewWriter(conn)
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		writer.WriteString(line)
		if writer.Flush() != nil {
			return
		}
	}
}

func measure(network, address string, noDelay bool, warmup, messages int) {
	if network == "tcp" {
		address = "127.0.0.1:" + address
	}
	conn, err := net.Dial(network, address)
	must(err)
	if tcp, ok := conn.(*net.TCPConn); ok {
		must(tcp.SetNoDelay(noDelay))
	}
	reader := bufio.NewReader(conn)
	exchange(conn, reader, warmup)

	fmt.Println("ready")
	stdin := bufio.NewReader(os.Stdin)
	_, err = stdin.ReadString('\n')
	must(err)
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
			must(err)
			if line != message {
				log.Fatalf("message %d came back as %q", i, line)
			}
		}
	}()
	for i := 0; i < messages; i++ {
		_, err := conn.Write([]byte(message))
		must(err)
	}
	<-done
}
