// SPDX-License-Identifier: GPL-2.0-or-later

// An echo server on a loopback port and on a Unix socket. It sends each line back on its own.
//
//	server PORT PATH
//
// It reads through a buffer and writes line by line, as the article's server does. Go switches Nagle's
// algorithm off on every TCP connection.
package main

import (
	"bufio"
	"log"
	"net"
	"os"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: server PORT PATH")
	}
	go serve("tcp", "127.0.0.1:"+os.Args[1])
	serve("unix", os.Args[2])
}

func serve(network, address string) {
	listener, err := net.Listen(network, address)
	if err != nil {
		log.Fatal(err)
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
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
		if _, err := writer.WriteString(line); err != nil {
			return
		}
		if err := writer.Flush(); err != nil {
			return
		}
	}
}
