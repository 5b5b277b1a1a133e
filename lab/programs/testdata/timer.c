/* Preloaded into a program, it interrupts whatever the program does 1,000 times
 * a second, by a signal whose handler has SA_RESTART: any thread, or, with
 * TIMER_MAIN in the environment, only the one that the program begins with. The
 * signal is one that no program of the cells uses: setitimer's and alarm's is
 * theirs. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void nothing(int signo) { (void)signo; }

__attribute__((constructor)) static void start(void)
{
	struct sigaction act = {.sa_handler = nothing, .sa_flags = SA_RESTART};
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 7};
	struct itimerspec ms = {{0, 1000000}, {0, 1000000}};
	timer_t timer;

	if (getenv("TIMER_MAIN")) {
		ev.sigev_notify = SIGEV_THREAD_ID;
		ev._sigev_un._tid = gettid();
	}
	if (sigaction(SIGRTMIN + 7, &act, NULL) == 0 && timer_create(CLOCK_MONOTONIC, &ev, &timer) == 0)
		timer_settime(timer, 0, &ms, NULL);
}
