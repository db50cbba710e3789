// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Logs in each period. A thread of the program replaces the log daemon, in a private /dev. The clean
 * program logs only before the loop.
 */
#define _GNU_SOURCE
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include "loop.h"

static int listener;

static void *daemon_thread(void *unused)
{
	char message[256];

	for (;;)
		recv(listener, message, sizeof(message), 0);
	return unused;
}

static void step(void)
{
	if (has_fault)
		syslog(LOG_INFO, "period");
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = { AF_UNIX, "/dev/log" };

	begin(argc, argv);
	if (unshare(CLONE_NEWNS) || mount("none", "/", 0, MS_REC | MS_PRIVATE, 0) ||
	    mount("tmpfs", "/dev", "tmpfs", 0, 0))
		return NO_RIGHT;
	listener = socket(AF_UNIX, SOCK_DGRAM, 0);
	if (listener < 0 || bind(listener, (void *)&address, sizeof(address)))
		return 1;
	start(daemon_thread, 0);
	syslog(LOG_INFO, "begin");
	loop(step);
}
