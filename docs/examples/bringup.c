/* Brings Unison up and follows two sessions through one tool call each; prints every answer.
 *
 * The host supplies the two accessors: each is one aligned 32-bit bus access. Nothing here provokes PSLVERR, which
 * many processors report as a bus fault: what could be refused is asked for in STATUS first.
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "unison_formats.h"
#include "unison_regs.h"

uint32_t unison_read32(uint32_t offset);
void unison_write32(uint32_t offset, uint32_t value);

#define FIELD(word, name) (((word) & name##_bm) >> name##_bp)

struct answer {
    uint32_t word0;
    uint32_t word1;
};

static const char *const tiers[] = {"none", "?", "SRAM", "HBM"};

static uint32_t status(void)
{
    return unison_read32(UNISON_STATUS_OFFSET);
}

static void wait_idle(void)
{
    while (!(status() & UNISON__STATUS__IDLE_bm)) {
    }
}

/* Capacities in tokens, gap in gap units, bandwidth in tokens per gap unit. False if there is no Unison here. */
static bool bring_up(uint32_t sram, uint32_t hbm, uint32_t gap_prior, const uint16_t *hazards)
{
    if (unison_read32(UNISON_ID_OFFSET) != UNISON__ID__VALUE_reset) {
        return false;
    }
    unison_write32(UNISON_CONTROL_OFFSET, UNISON__CONTROL__RESET_bm);
    wait_idle();
    unison_write32(UNISON_CAPACITY_SRAM_OFFSET, sram);
    unison_write32(UNISON_CAPACITY_HBM_OFFSET, hbm);
    unison_write32(UNISON_BANDWIDTH_OFFSET,
                   1u << UNISON__BANDWIDTH__NUMERATOR_bp | 2u << UNISON__BANDWIDTH__DENOMINATOR_bp);
    unison_write32(UNISON_GAP_PRIOR_OFFSET, gap_prior);
    unison_write32(UNISON_CONFIG_OFFSET, 0);

    uint32_t turns = FIELD(unison_read32(UNISON_SIZES_OFFSET), UNISON__SIZES__TURNS);
    for (uint32_t turn = 0; turn < turns; turn++) {
        unison_write32(UNISON_HAZARD_OFFSET + 4 * turn, hazards[turn]);
    }
    unison_write32(UNISON_COMMIT_OFFSET, UNISON__COMMIT__COMMIT_bm);
    while (status() & UNISON__STATUS__COMMIT_PENDING_bm) {
    }
    return true;
}

/* False when the FIFO has no place: read answers, then try again. With one writer, a place that is free stays free. */
static bool push(enum unison_opcode opcode, uint32_t slot, uint32_t tokens, uint32_t operand)
{
    uint32_t level = FIELD(status(), UNISON__STATUS__EVENT_LEVEL);
    uint32_t places = FIELD(unison_read32(UNISON_DEPTHS_OFFSET), UNISON__DEPTHS__EVENT);
    if (level >= (opcode == UNISON_OPCODE_DMA_DONE ? places : places - 1)) {
        return false;
    }
    unison_write32(UNISON_EVENT1_OFFSET, operand);
    unison_write32(UNISON_EVENT0_OFFSET, (uint32_t)opcode << UNISON_EVENT0_OPCODE_bp |
                                             slot << UNISON_EVENT0_SLOT_bp | tokens << UNISON_EVENT0_TOKENS_bp);
    return true;
}

/* False when there is no answer. */
static bool pop(struct answer *answer)
{
    answer->word0 = unison_read32(UNISON_ANSWER0_OFFSET);
    if (FIELD(answer->word0, UNISON_ANSWER0_KIND) == UNISON_ANSWER_EMPTY) {
        return false;
    }
    answer->word1 = unison_read32(UNISON_ANSWER1_OFFSET);
    return true;
}

/* What the host does for an answer stands where this prints it. */
static void act(const struct answer *answer)
{
    uint32_t word0 = answer->word0;
    uint32_t word1 = answer->word1;
    uint32_t slot = FIELD(word0, UNISON_ANSWER0_SLOT);

    switch (FIELD(word0, UNISON_ANSWER0_KIND)) {
    case UNISON_ANSWER_OUTCOME:
        printf("OUTCOME opcode %" PRIu32, FIELD(word0, UNISON_OUTCOME0_OPCODE));
        if (word0 & UNISON_OUTCOME0_SLOT_VALID_bm) {
            printf(" slot %" PRIu32, slot);
        }
        printf(" found %s placed %s\n", tiers[FIELD(word0, UNISON_OUTCOME0_FOUND)],
               tiers[FIELD(word0, UNISON_OUTCOME0_PLACED)]);
        break;
    case UNISON_ANSWER_ERROR:
        printf("ERROR code %" PRIu32 " word 0 %08" PRIx32 "\n", FIELD(word0, UNISON_ERROR0_CODE), word1);
        break;
    case UNISON_ANSWER_FORGET:
        printf("FORGET slot %" PRIu32 "\n", slot);
        break;
    case UNISON_ANSWER_EVICT:
        printf("EVICT slot %" PRIu32 "\n", slot);
        break;
    case UNISON_ANSWER_MOVED:
        printf("MOVED slot %" PRIu32 " to %s tokens %" PRIu32 "\n", slot, tiers[FIELD(word1, UNISON_MOVED1_TIER)],
               FIELD(word0, UNISON_MOVED0_TOKENS));
        break;
    case UNISON_ANSWER_MIGRATE:
        printf("MIGRATE slot %" PRIu32 " tokens %" PRIu32, slot, FIELD(word0, UNISON_MIGRATE0_TOKENS));
        if (word1 & UNISON_MIGRATE1_DEMOTED_VALID_bm) {
            printf(" for slot %" PRIu32 " tokens %" PRIu32, FIELD(word1, UNISON_MIGRATE1_DEMOTED_SLOT),
                   FIELD(word1, UNISON_MIGRATE1_DEMOTED_TOKENS));
        }
        printf("\n");
        break;
    }
}

/* Executes one event and returns its last answer; a driver with more in flight reads answers from its interrupt. */
static struct answer execute(enum unison_opcode opcode, uint32_t slot, uint32_t tokens, uint32_t operand)
{
    struct answer answer;
    uint32_t kind = UNISON_ANSWER_EMPTY;

    while (!push(opcode, slot, tokens, operand)) {
    }
    while (kind != UNISON_ANSWER_OUTCOME && kind != UNISON_ANSWER_ERROR) {
        if (pop(&answer)) {
            kind = FIELD(answer.word0, UNISON_ANSWER0_KIND);
            act(&answer);
        }
    }
    return answer;
}

int main(void)
{
    uint16_t hazards[64] = {0};
    for (uint32_t turn = 1; turn < 64; turn++) {
        hazards[turn] = 80; /* 0.02 in UQ0.12 */
    }
    if (!bring_up(8000, 20000, 2000000, hazards)) {
        return 1;
    }

    struct answer outcome = execute(UNISON_OPCODE_ARRIVE_ANY, 0, 6000, 0);
    uint32_t first = FIELD(outcome.word0, UNISON_ANSWER0_SLOT);
    outcome = execute(UNISON_OPCODE_ARRIVE_ANY, 0, 5000, 0);
    uint32_t second = FIELD(outcome.word0, UNISON_ANSWER0_SLOT);

    /* The first session waits for a slow tool, the second for a quick one. */
    execute(UNISON_OPCODE_GAP_START, first, 6500, 0);
    execute(UNISON_OPCODE_GAP_END, first, 0, 30000000);
    execute(UNISON_OPCODE_GAP_START, second, 5200, 500000);
    execute(UNISON_OPCODE_DMA_DONE, 0, 0, 0);
    execute(UNISON_OPCODE_GAP_END, second, 0, 400000);
    execute(UNISON_OPCODE_ARRIVE, second, 7000, 0);
    execute(UNISON_OPCODE_COMPLETE, second, 0, 0);
    execute(UNISON_OPCODE_RELEASE, first, 0, 0);
    execute(UNISON_OPCODE_GAP_END, first, 0, 1);

    wait_idle();
    unison_write32(UNISON_ENTRY_INDEX_OFFSET, second);
    uint32_t entry = unison_read32(UNISON_ENTRY0_OFFSET);
    printf("slot %" PRIu32 ": %s, turn %" PRIu32 ", %" PRIu32 " tokens, gap average %" PRIu32 "\n", second,
           tiers[FIELD(entry, UNISON__ENTRY0__RESIDENCY)], FIELD(entry, UNISON__ENTRY0__TURN),
           FIELD(entry, UNISON__ENTRY0__TOKENS), unison_read32(UNISON_ENTRY1_OFFSET));
    return 0;
}
