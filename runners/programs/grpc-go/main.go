// SPDX-License-Identifier: GPL-2.0-or-later

// A gRPC server whose call `echo` sends its bytes back, and a client that makes calls.
//
//	echo-grpc server|client|count unix|tcp ADDRESS [CLIENTS CALLS]    (ADDRESS: a path, or a port)
//
// The client makes CALLS calls in each of CLIENTS goroutines, one after another, over one connection,
// and prints their times as JSON. `count` prints how many calls the server has answered.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"net"
	"os"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// Bytes as they are: no message of a protocol has to be generated.
type plain struct{}

func (plain) Marshal(v interface{}) ([]byte, error) { return *v.(*[]byte), nil }
func (plain) Unmarshal(data []byte, v interface{}) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (plain) Name() string   { return "plain" }
func (plain) String() string { return "plain" }

var calls uint64

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func echo(_ interface{}, _ context.Context, decode func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
	var data []byte
	err := decode(&data)
	atomic.AddUint64(&calls, 1)
	return &data, err
}

func count(_ interface{}, _ context.Context, _ func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
	number := binary.BigEndian.AppendUint64(nil, atomic.LoadUint64(&calls))
	return &number, nil
}

func serve(network, address string) {
	listener, err := net.Listen(network, address)
	must(err)
	server := grpc.NewServer(grpc.CustomCodec(plain{}))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bench",
		HandlerType: (*interface{})(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "echo", Handler: echo}, {MethodName: "count", Handler: count}},
	}, struct{}{})
	log.Fatal(server.Serve(listener))
}

func dial(network, address string) *grpc.ClientConn {
	connection, err := grpc.Dial("passthrough:///"+address, grpc.WithInsecure(), grpc.WithBlock(),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(plain{})),
		grpc.WithContextDialer(func(ctx context.Context, where string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, where)
		}))
	must(err)
	return connection
}

func call(connection *grpc.ClientConn, method string, data []byte) []byte {
	var answer []byte
	must(connection.Invoke(context.Background(), "/bench/"+method, &data, &answer))
	return answer
}

func main() {
	log.SetFlags(0)
	network, address := os.Args[2], os.Args[3]
	if network == "tcp" {
		address = "127.0.0.1:" + address
	}
	if os.Args[1] == "server" {
		serve(network, address)
	}
	connection := dial(network, address)
	if os.Args[1] == "count" {
		fmt.Println("calls", binary.BigEndian.Uint64(call(connection, "count", nil)))
		return
	}
	clients, err := strconv.Atoi(os.Args[4])
	must(err)
	each, err := strconv.Atoi(os.Args[5])
	must(err)
	times := make([]int64, clients*each)
	payload := make([]byte, 32)
	var done sync.WaitGroup
	start := time.Now()
	for i := 0; i < clients; i++ {
		done.Add(1)
		go func(mine []int64) {
			defer done.Done()
			for j := range mine {
				began := time.Now()
				if len(call(connection, "echo", payload)) != len(payload) {
					log.Fatal("the answer is not the request")
				}
				mine[j] = time.Since(began).Nanoseconds()
			}
		}(times[i*each : (i+1)*each])
	}
	done.Wait()
	took := time.Since(start).Nanoseconds()
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	var sum int64
	for _, each := range times {
		sum += each
	}
	n := len(times)
	fmt.Printf("{\"requests\": %d, \"window_ns\": %d, \"latency_ns\": {\"mean\": %d, \"p50\": %d, \"p99\": %d}}\n",
		n, took, sum/int64(n), times[n/2], times[n*99/100])
}
