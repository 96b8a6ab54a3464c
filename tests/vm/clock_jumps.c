// SPDX-License-Identifier: Apache-2.0
// clock_jumps TRACER: records this program again (with the argument "child") while that sets the wall clock forth and back
// and suspends the machine, then looks at the record of each of its processes: there once, as long as it lived, at the
// time that the clock showed when it ended. For a guest only: it changes the machine's clock and puts it to sleep.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RECORDS "/tmp/jumps.ndjson"
#define TRUTH "/tmp/jumps.truth"

enum { SUSPEND_S = 6, ASLEEP_S = 1 }; // falling asleep takes an emulated machine seconds of the former

// The guest's CPU is made of software and may stand still; a move is longer.
static const int64_t SLACK_NS = 1000 * 1000 * 1000;

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void sleep_ms(long milliseconds)
{
	struct timespec left = { milliseconds / 1000, milliseconds % 1000 * 1000000 };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static void clock_step(long seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec += seconds;
	if (clock_settime(CLOCK_REALTIME, &now))
		die("clock_settime");
}

static void file_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die(path);
	close(fd);
}

static bool deep_sleep(void)
{
	char kinds[64] = "";
	FILE *file = fopen("/sys/power/mem_sleep", "re");
	bool deep;

	if (!file)
		return true;
	deep = fgets(kinds, sizeof(kinds), file) && strstr(kinds, "deep");
	fclose(file);
	return deep;
}

static void suspend(long unused)
{
	char alarm[16];

	(void)unused;
	snprintf(alarm, sizeof(alarm), "+%d", SUSPEND_S);
	file_write("/sys/class/rtc/rtc0/wakealarm", "0");
	file_write("/sys/class/rtc/rtc0/wakealarm", alarm);
	file_write("/sys/power/state", "mem");
}

struct life {
	pid_t pid;
	int64_t start_boot_ns;
};

static struct life life_begin(void)
{
	struct life life = { .start_boot_ns = clock_ns(CLOCK_BOOTTIME) };

	life.pid = fork();
	if (life.pid < 0)
		die("fork");
	if (!life.pid) {
		pause();
		_exit(1);
	}
	return life;
}

static void life_end(const struct life *life, FILE *truth)
{
	kill(life->pid, SIGTERM);
	waitpid(life->pid, NULL, 0);
	fprintf(truth, "%d %" PRId64 " %" PRId64 " %" PRId64 "\n", life->pid, life->start_boot_ns,
		clock_ns(CLOCK_BOOTTIME), clock_ns(CLOCK_REALTIME));
	fflush(truth);
}

// One process lives through the move, one begins right after it.
static void move(void (*body)(long), long argument, FILE *truth)
{
	struct life across = life_begin(), after;

	sleep_ms(500);
	body(argument);
	after = life_begin();
	life_end(&across, truth);
	sleep_ms(50);
	life_end(&after, truth);
	sleep_ms(1000);
}

static int child(void)
{
	FILE *truth = fopen(TRUTH, "we");
	clockid_t awake;
	int64_t before_ns;

	if (!truth)
		die(TRUTH);
	move(clock_step, 3600, truth);
	move(clock_step, -7200, truth);
	// Where there is only the light sleep of idle CPUs (arm64 under qemu) the monotonic clock may go on in it.
	awake = deep_sleep() ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
	before_ns = clock_ns(CLOCK_BOOTTIME) - clock_ns(awake);
	move(suspend, 0, truth);
	if (clock_ns(CLOCK_BOOTTIME) - clock_ns(awake) - before_ns < ASLEEP_S * 1000000000ll) {
		printf("the machine did not sleep\n");
		return 1;
	}
	move(clock_step, 3600, truth);
	return fclose(truth);
}

static int64_t number(const char *line, const char *key)
{
	const char *found = strstr(line, key);

	return found ? strtoll(found + strlen(key), NULL, 10) : -1;
}

static bool near(const char *what, pid_t pid, int64_t value, int64_t right)
{
	if (llabs(value - right) <= SLACK_NS)
		return true;
	printf("pid %d: %s is %" PRId64 ", not %" PRId64 "\n", pid, what, value, right);
	return false;
}

static bool life_check(FILE *records, pid_t pid, int64_t start_boot_ns, int64_t end_boot_ns, int64_t end_ns)
{
	static char line[1 << 20];
	bool right = true;
	int found = 0;
	char key[32];

	snprintf(key, sizeof(key), "\"pid\":%d,", pid);
	rewind(records);
	while (fgets(line, sizeof(line), records)) {
		if (!strstr(line, "\"kind\":\"process\"") || !strstr(line, key))
			continue;
		found++;
		right &= near("start_boot_ns", pid, number(line, "\"start_boot_ns\":"), start_boot_ns);
		right &= near("its life", pid, number(line, "\"end_ns\":") - number(line, "\"start_ns\":"),
			      end_boot_ns - start_boot_ns);
		right &= near("end_ns", pid, number(line, "\"end_ns\":"), end_ns);
		right &= near("cpu_ns", pid, number(line, "\"cpu_ns\":"), 0);
	}
	if (found != 1)
		printf("pid %d: %d records\n", pid, found);
	return right && found == 1;
}

static bool gaps_check(FILE *records)
{
	static char line[1 << 20];
	bool right = true;

	rewind(records);
	while (fgets(line, sizeof(line), records)) {
		if (!strstr(line, "\"kind\":\"gap\""))
			continue;
		printf("%s", line);
		right = false;
	}
	return right;
}

int main(int argc, char **argv)
{
	int64_t start_boot_ns, end_boot_ns, end_ns;
	FILE *truth, *records;
	int pid, lives = 0, status;
	bool right = true;

	if (argc != 2) {
		printf("usage: %s TRACER\n", argv[0]);
		return 2;
	}
	if (!strcmp(argv[1], "child"))
		return child();
	pid = fork();
	if (!pid) {
		execlp(argv[1], argv[1], "run", "-q", "-o", RECORDS, "--", argv[0], "child", NULL);
		die(argv[1]);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status)) {
		printf("the recording ended with status %x\n", status);
		return 1;
	}
	truth = fopen(TRUTH, "re");
	records = fopen(RECORDS, "re");
	if (!truth || !records)
		die(RECORDS);
	while (fscanf(truth, "%d %" SCNd64 " %" SCNd64 " %" SCNd64, &pid, &start_boot_ns, &end_boot_ns, &end_ns) == 4) {
		right &= life_check(records, pid, start_boot_ns, end_boot_ns, end_ns);
		lives++;
	}
	right &= gaps_check(records);
	printf("%d lives\n", lives);
	return right && lives == 8 ? 0 : 1;
}
