// SPDX-License-Identifier: GPL-2.0-or-later

// The article's server: Gin answers /ping on a loopback port and on a Unix socket.
//
//	server log|quiet PORT PATH
//
// With `log` it is gin.Default() as in the article, which writes a line to standard output for each
// request; `quiet` leaves that line out.
package main

import (
	"log"
	"net"
	"net/http"
	"os"

	"github.com/gin-gonic/gin"
)

func main() {
	log.SetFlags(0)
	engine := gin.New()
	if os.Args[1] == "log" {
		engine.Use(gin.Logger())
	}
	engine.Use(gin.Recovery())
	engine.GET("/ping", func(c *gin.Context) {
		c.JSON(http.StatusOK, gin.H{"message": "pong"})
	})
	go serve(engine, "tcp", "127.0.0.1:"+os.Args[2])
	serve(engine, "unix", os.Args[3])
}

func serve(engine *gin.Engine, network, address string) {
	listener, err := net.Listen(network, address)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, engine))
}
