// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Load for dirtied.py: creates files in the directory that is its argument. For each
 * number read from standard input (one line per slice), creates that many files in
 * batches of 100, prints the nanoseconds per file of each batch, and removes them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 100 };

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

int main(int argc, char **argv)
{
	char name[32];
	int files;

	if (argc != 2 || chdir(argv[1]))
		die("directory");
	while (scanf("%d", &files) == 1) {
		for (int i = 0; i < files; i += BATCH) {
			uint64_t begun = now();

			for (int j = i; j < i + BATCH; j++) {
				int fd;

				snprintf(name, sizeof(name), "file%d", j);
				fd = open(name, O_CREAT | O_WRONLY | O_EXCL, 0644);
				if (fd < 0)
					die(name);
				close(fd);
			}
			printf("%llu ", (unsigned long long)(now() - begun) / BATCH);
		}
		puts("");
		fflush(stdout);
		for (int i = 0; i < files; i++) {
			snprintf(name, sizeof(name), "file%d", i);
			unlink(name);
		}
	}
	return 0;
}
