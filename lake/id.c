// SPDX-License-Identifier: Apache-2.0
// Lake, ids: BLAKE2s (RFC 7693, 8 bytes of digest, no key) over the parts of a key, each with its length in front so
// that no two keys run together. What an id is made of never changes: links and stores depend on it.

#include <stdint.h>
#include <string.h>

#include "lake/rows.h"

enum { BLOCK = 64, DIGEST = 8 };

struct blake {
	uint32_t state[8];
	uint64_t length;
	size_t used;
	uint8_t block[BLOCK];
};

static const uint32_t initial[8] = {
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static const uint8_t order[10][16] = {
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
	{11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
	{9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
	{12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
	{6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static uint32_t rotate(uint32_t value, unsigned bits)
{
	return value >> bits | value << (32 - bits);
}

static void mix(uint32_t *v, unsigned a, unsigned b, unsigned c, unsigned d, uint32_t x, uint32_t y)
{
	v[a] += v[b] + x;
	v[d] = rotate(v[d] ^ v[a], 16);
	v[c] += v[d];
	v[b] = rotate(v[b] ^ v[c], 12);
	v[a] += v[b] + y;
	v[d] = rotate(v[d] ^ v[a], 8);
	v[c] += v[d];
	v[b] = rotate(v[b] ^ v[c], 7);
}

static void compress(struct blake *blake, bool last)
{
	uint32_t v[16], m[16];

	for (unsigned i = 0; i < 16; i++) {
		const uint8_t *at = blake->block + i * 4;

		m[i] = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
	}
	memcpy(v, blake->state, sizeof(blake->state));
	memcpy(v + 8, initial, sizeof(initial));
	v[12] ^= (uint32_t)blake->length;
	v[13] ^= (uint32_t)(blake->length >> 32);
	if (last)
		v[14] = ~v[14];
	for (unsigned round = 0; round < 10; round++) {
		const uint8_t *s = order[round];

		mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
		mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
		mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
		mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
		mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
		mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
		mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
		mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
	}
	for (unsigned i = 0; i < 8; i++)
		blake->state[i] ^= v[i] ^ v[i + 8];
}

static void blake_begin(struct blake *blake, char kind)
{
	memset(blake, 0, sizeof(*blake));
	memcpy(blake->state, initial, sizeof(initial));
	blake->state[0] ^= 0x01010000 ^ DIGEST;
	blake->block[0] = (uint8_t)kind;
	blake->used = 1;
}

static void blake_bytes(struct blake *blake, const void *data, size_t length)
{
	const uint8_t *bytes = data;

	while (length > 0) {
		size_t part = BLOCK - blake->used < length ? BLOCK - blake->used : length;

		// A full block waits until it is known whether it is the last.
		if (part == 0) {
			blake->length += BLOCK;
			compress(blake, false);
			blake->used = 0;
			continue;
		}
		memcpy(blake->block + blake->used, bytes, part);
		blake->used += part;
		bytes += part;
		length -= part;
	}
}

static void blake_u64(struct blake *blake, uint64_t value)
{
	uint8_t bytes[8];

	for (unsigned i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(value >> i * 8);
	blake_bytes(blake, bytes, sizeof(bytes));
}

static void blake_text(struct blake *blake, const char *text, size_t length)
{
	blake_u64(blake, length);
	blake_bytes(blake, text, length);
}

static uint64_t blake_end(struct blake *blake)
{
	uint64_t id;

	blake->length += blake->used;
	memset(blake->block + blake->used, 0, BLOCK - blake->used);
	compress(blake, true);
	id = ((uint64_t)blake->state[1] << 32 | blake->state[0]) & LAKE_U64_MAX;
	return id ? id : 1;
}

uint64_t lake_id_host(const char *workspace, const char *host_id)
{
	struct blake blake;

	blake_begin(&blake, 'h');
	blake_text(&blake, workspace, strlen(workspace));
	blake_text(&blake, host_id, strlen(host_id));
	return blake_end(&blake);
}

// What most ids are: a kind, what it is in, a name.
static uint64_t id_within(char kind, uint64_t outer, uint64_t other, const char *text, size_t length)
{
	struct blake blake;

	blake_begin(&blake, kind);
	blake_u64(&blake, outer);
	blake_u64(&blake, other);
	blake_text(&blake, text, length);
	return blake_end(&blake);
}

uint64_t lake_id_run(uint64_t host, const char *run, size_t length)
{
	return id_within('r', host, 0, run, length);
}

uint64_t lake_id_task(uint64_t run, const char *task, size_t length)
{
	return id_within('t', run, 0, task, length);
}

uint64_t lake_id_sample(uint64_t run, const char *sample, size_t length)
{
	return id_within('s', run, 0, sample, length);
}

uint64_t lake_id_tool(uint64_t host, uint64_t run, const char *tool, size_t length)
{
	return id_within('o', host, run, tool, length);
}

uint64_t lake_id_cgroup(uint64_t host, const char *cgroup, size_t length)
{
	return id_within('c', host, 0, cgroup, length);
}

uint64_t lake_id_pipeline(const char *workspace, const char *engine, const char *name)
{
	struct blake blake;

	blake_begin(&blake, 'p');
	blake_text(&blake, workspace, strlen(workspace));
	blake_u64(&blake, engine != NULL);
	blake_text(&blake, engine ? engine : "", engine ? strlen(engine) : 0);
	blake_text(&blake, name, strlen(name));
	return blake_end(&blake);
}

uint64_t lake_id_process(uint64_t host, const char *boot, uint64_t pid, uint64_t start_boot_ns)
{
	struct blake blake;

	blake_begin(&blake, 'x');
	blake_u64(&blake, host);
	blake_u64(&blake, pid);
	blake_u64(&blake, start_boot_ns);
	blake_text(&blake, boot, strlen(boot));
	return blake_end(&blake);
}

uint64_t lake_id_series(enum series_kind kind, uint64_t owner_id, const char *label, size_t length)
{
	return id_within('e', owner_id, kind, label, length);
}

uint64_t lake_id_key(uint64_t run, const char *key, size_t length)
{
	return id_within('k', run, 0, key, length);
}
