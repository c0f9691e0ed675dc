// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Load for added.py: batches of 4 KiB direct random writes from one thread.
 * Reads milliseconds from standard input, one slice per line, and prints the
 * nanoseconds per request of each batch of that slice.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	BLOCK = 4096,
	DEPTH = 32,	/* requests of a batch */
	WARM_UP = 8,	/* batches that are not counted, after tracers were switched */
	MOST = 1 << 16,	/* maximum number of batches per slice */
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t next_random(void)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void batch(aio_context_t context, int fd, void *block, uint64_t blocks)
{
	struct iocb io[DEPTH], *list[DEPTH];
	struct io_event events[DEPTH];

	memset(io, 0, sizeof(io));
	for (int i = 0; i < DEPTH; i++) {
		io[i].aio_lio_opcode = IOCB_CMD_PWRITE;
		io[i].aio_fildes = fd;
		io[i].aio_buf = (uint64_t)block;
		io[i].aio_nbytes = BLOCK;
		io[i].aio_offset = next_random() % blocks * BLOCK;
		list[i] = &io[i];
	}
	if (syscall(SYS_io_submit, context, DEPTH, list) != DEPTH)
		die("io_submit");
	if (syscall(SYS_io_getevents, context, DEPTH, DEPTH, events, NULL) != DEPTH)
		die("io_getevents");
	for (int i = 0; i < DEPTH; i++)
		if (events[i].res != BLOCK)
			die("write");
}

int main(int argc, char **argv)
{
	static uint32_t took[MOST];
	aio_context_t context = 0;
	uint64_t blocks;
	unsigned int ms;
	void *block;
	int fd;

	if (argc != 3) {
		fprintf(stderr, "usage: added FILE BYTES\n");
		return 2;
	}
	fd = open(argv[1], O_WRONLY | O_DIRECT);
	if (fd < 0)
		die(argv[1]);
	blocks = strtoull(argv[2], NULL, 0) / BLOCK;
	if (posix_memalign(&block, BLOCK, BLOCK))
		die("memory");
	memset(block, 'x', BLOCK);
	if (syscall(SYS_io_setup, DEPTH, &context))
		die("io_setup");
	while (scanf("%u", &ms) == 1) {
		uint64_t end, t;
		int n = 0;

		for (int i = 0; i < WARM_UP; i++)
			batch(context, fd, block, blocks);
		t = now();
		end = t + ms * 1000000ull;
		while (t < end && n < MOST) {
			uint64_t before = t;

			batch(context, fd, block, blocks);
			t = now();
			took[n++] = (t - before) / DEPTH;
		}
		for (int i = 0; i < n; i++)
			printf("%u ", took[i]);
		printf("\n");
		fflush(stdout);
	}
	return 0;
}
