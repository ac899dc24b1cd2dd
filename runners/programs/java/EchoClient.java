// SPDX-License-Identifier: GPL-2.0-or-later

import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.FutureTask;

/**
 * The client of go/echo.go, in Java: the same arguments, the same output. It reads 128 bytes at a time,
 * as the article's client does; unlike that one, it counts a line only when it is complete.
 */
public final class EchoClient {
    private static final byte[] MESSAGE = "HelloWorld\n".getBytes(StandardCharsets.US_ASCII);
    private static final int READ_BYTES = 128;

    private EchoClient() {}

    public static void main(String[] args) throws Exception {
        boolean unix = args[0].equals("unix");
        int messages = Integer.parseInt(args[4]);
        try (SocketChannel channel = unix
                ? SocketChannel.open(StandardProtocolFamily.UNIX)
                : SocketChannel.open()) {
            if (unix) {
                channel.connect(UnixDomainSocketAddress.of(args[1]));
            } else {
                channel.connect(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[1])));
                channel.setOption(StandardSocketOptions.TCP_NODELAY, args[2].equals("nodelay"));
            }
            exchange(channel, Integer.parseInt(args[3]));
            System.out.println("ready");
            if (System.in.read() < 0) {
                throw new EOFException("the input ended before the start");
            }
            long start = System.nanoTime();
            exchange(channel, messages);
            long took = System.nanoTime() - start;
            System.out.printf(
                    "{\"sent\": %d, \"echoed\": %d, \"window_ns\": %d, \"runtime\": \"Java %s\"}%n",
                    messages, messages, took, System.getProperty("java.version"));
            System.in.readAllBytes(); // a counter of this process needs it alive until then
        }
    }

    /** Returns when every message has come back. */
    private static void exchange(SocketChannel channel, int messages) throws Exception {
        FutureTask<Void> reading = new FutureTask<>(() -> readAll(channel, messages));
        Thread reader = new Thread(reading);
        reader.setDaemon(true);
        reader.start();
        for (int i = 0; i < messages; i++) {
            ByteBuffer buffer = ByteBuffer.wrap(MESSAGE);
            while (buffer.hasRemaining()) {
                channel.write(buffer);
            }
        }
        reading.get();
    }

    private static Void readAll(SocketChannel channel, int messages) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(READ_BYTES);
        long wanted = (long) messages * MESSAGE.length;
        for (long received = 0; received < wanted; ) {
            if (channel.read(buffer.clear()) < 0) {
                throw new EOFException("the server closed the connection");
            }
            buffer.flip();
            while (buffer.hasRemaining()) {
                if (buffer.get() != MESSAGE[(int) (received++ % MESSAGE.length)]) {
                    throw new IOException("byte " + received + " came back changed");
                }
            }
        }
        return null;
    }
}
