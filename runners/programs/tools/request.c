// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sends one request again and again, and waits for its answer: a client for any protocol in which a
 * connection carries answers in order, over a Unix socket or TCP.
 *
 * usage: request unix PATH|tcp PORT  CLIENTS  REQUESTS  keep|new  DEPTH  http|ENDING  TEXT  [BODY]
 *
 * One thread serves CLIENTS connections; each sends DEPTH requests at once and then waits for all
 * their answers. With `new`, each such turn has a connection of its own. An answer is over at
 * ENDING, or, with http, by its Content-Length; its status must be 200. BODY bytes and a line end
 * follow TEXT. Prints one JSON object: requests, window_ns from the first connection to the last
 * answer, and latency_ns: mean, p50 and p99 of a request's time (of a turn's, where DEPTH is more).
 */
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include "common.h"

enum { BUFFER = 1 << 16, HEADER = 1 << 14, MOST = 1 << 14 };

struct client {
	int socket;
	long open;	 /* answers that are still to come */
	long long began; /* when its requests were sent */
	size_t matched;	 /* bytes of the ending that the answer's end has so far */
	size_t body;	 /* bytes of an HTTP answer that are still to come */
	size_t length;	 /* of what is there of its header */
	char header[HEADER];
};

static const char *ending;
static bool http, keep;
static char *turn; /* DEPTH requests */
static size_t turn_length;
static long depth, unsent, unanswered, samples;
static long long *times;

static void connect_client(struct client *client, int queue)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
	int yes = 1;

	client->socket = open_connection(SOCK_CLOEXEC);
	if (address.any.sa_family == AF_INET)
		setsockopt(client->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	if (epoll_ctl(queue, EPOLL_CTL_ADD, client->socket, &event) != 0)
		err(1, "epoll_ctl");
}

/* Sends the next turn; without one that is left, closes the connection. */
static void next_turn(struct client *client, int queue)
{
	long count = unsent < depth ? unsent : depth;

	if (client->socket >= 0 && (!keep || count == 0)) {
		close(client->socket);
		client->socket = -1;
	}
	if (count == 0)
		return;
	client->began = now();
	if (client->socket < 0)
		connect_client(client, queue);
	unsent -= count;
	client->open = count;
	size_t left = turn_length / depth * count;

	for (char *from = turn; left;) {
		ssize_t sent = send(client->socket, from, left, MSG_NOSIGNAL);

		if (sent < 0)
			err(1, "send");
		from += sent;
		left -= sent;
	}
}

static void read_header(struct client *client)
{
	client->header[client->length] = '\0';
	char *size = strcasestr(client->header, "\r\ncontent-length:");

	if (strncmp(client->header, "HTTP/1.", 7) != 0 || strncmp(client->header + 8, " 200", 4))
		errx(1, "the answer begins with %.60s", client->header);
	if (!size)
		errx(1, "the answer has no Content-Length");
	client->body = strtoul(size + strlen("\r\ncontent-length:"), NULL, 10);
}

/* How many answers end within these bytes. */
static long answers_in(struct client *client, const char *data, size_t length)
{
	long count = 0;

	for (size_t i = 0; i < length; i++) {
		if (client->body) {
			size_t part = length - i < client->body ? length - i : client->body;

			client->body -= part;
			i += part - 1;
			count += client->body == 0;
			continue;
		}
		if (http && client->length < HEADER - 1)
			client->header[client->length++] = data[i];
		client->matched = data[i] == ending[client->matched] ? client->matched + 1
								     : data[i] == ending[0];
		if (ending[client->matched])
			continue;
		if (http)
			read_header(client);
		client->length = client->matched = 0;
		count += client->body == 0;
	}
	return count;
}

static void receive(struct client *client, int queue)
{
	static char data[BUFFER];
	ssize_t length = recv(client->socket, data, sizeof(data), 0);

	if (length < 0)
		err(1, "recv");
	if (length == 0)
		errx(1, "the server closed a connection");
	long answers = answers_in(client, data, length);

	if (answers > client->open)
		errx(1, "the server sent more answers than it got requests");
	unanswered -= answers;
	client->open -= answers;
	if (client->open == 0) {
		times[samples++] = now() - client->began;
		next_turn(client, queue);
	}
}

static void make_turn(const char *text, size_t body)
{
	size_t length = strlen(text), whole = length + (body ? body + 2 : 0);

	turn_length = whole * depth;
	turn = malloc(turn_length);
	if (!turn)
		err(1, "malloc");
	for (long i = 0; i < depth; i++) {
		char *request = turn + i * whole;

		memcpy(request, text, length);
		if (body) {
			memset(request + length, 'x', body);
			memcpy(request + length + body, "\r\n", 2);
		}
	}
}

int main(int argc, char **argv)
{
	if (argc != 9 && argc != 10)
		errx(2, "usage: request unix PATH|tcp PORT CLIENTS REQUESTS keep|new DEPTH "
			"http|ENDING TEXT [BODY]");
	set_address(argv[1], argv[2]);
	long clients = atol(argv[3]), requests = atol(argv[4]);

	keep = strcmp(argv[5], "keep") == 0;
	depth = atol(argv[6]);
	ending = argv[7];
	http = strcmp(ending, "http") == 0;
	if (http)
		ending = "\r\n\r\n"; /* of a header, which tells how long the body is */
	if (clients < 1 || clients > MOST || requests < 1 || depth < 1 || !*ending)
		errx(2, "CLIENTS, REQUESTS and DEPTH are at least 1, and ENDING is not empty");
	make_turn(argv[8], argc == 10 ? strtoul(argv[9], NULL, 10) : 0);
	unsent = unanswered = requests;
	struct client *all = calloc(clients, sizeof(*all));
	int queue = epoll_create1(EPOLL_CLOEXEC);

	times = malloc(requests * sizeof(*times));
	if (!all || !times || queue < 0)
		err(1, "starting");
	long long began = now();

	for (long i = 0; i < clients; i++) {
		all[i].socket = -1;
		next_turn(&all[i], queue);
	}
	while (unanswered > 0) {
		struct epoll_event events[64];
		int ready = epoll_wait(queue, events, 64, 10000);

		if (ready <= 0)
			errx(1, "no answer came for 10 seconds");
		for (int i = 0; i < ready; i++)
			receive(events[i].data.ptr, queue);
	}
	long long took = now() - began, sum = 0;

	for (long i = 0; i < samples; i++)
		sum += times[i];
	qsort(times, samples, sizeof(*times), ascending);
	printf("{\"requests\": %ld, \"window_ns\": %lld, \"latency_ns\": {\"mean\": %lld, "
	       "\"p50\": %lld, \"p99\": %lld}}\n",
	       requests, took, sum / samples, times[samples / 2], times[samples * 99 / 100]);
	return 0;
}
