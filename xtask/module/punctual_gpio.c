// SPDX-License-Identifier: GPL-2.0
/*
 * A GPIO chip with three lines: the other end of `measure gpio` in the emulated
 * machine, and the ground truth for its tests.
 *
 * Writing "edges 100 5000" to /proc/punctual_gpio clears the counts. The level of
 * the line punctual-in then changes 100 times, every 5000 us, first from low to
 * high. "wire 1" connects the lines, so that punctual-in follows punctual-out.
 *
 * Reading the file returns the counts. An edge counts if its interrupt is enabled.
 * A reaction is the first change of punctual-out after an edge. The kernel takes
 * the time stamp of an edge while a function of this module runs, so each reaction
 * has two times: "longest" starts before this function, and "shortest" starts after
 * it (0 if the reaction came earlier).
 */
#include <linux/gpio/driver.h>
#include <linux/hrtimer.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#define LINE_IN 0
#define LINE_OUT 1
/* An input without an interrupt, which no test may drive. */
#define LINE_IDLE 2
#define LINES 3

#define MOST_EDGES 1000000u
#define SHORTEST_US 50u
#define LONGEST_US 1000000u

static const char *const names[LINES] = {
	"punctual-in", "punctual-out", "punctual-idle",
};

struct times {
	u64 sum;
	u64 least;
	u64 most;
};

/* Everything below is protected by this lock, also from hard interrupts. */
static DEFINE_RAW_SPINLOCK(lock);
static unsigned int left;
static ktime_t period;
static bool wired;
static bool level_in, level_out;
static unsigned int type;
static bool masked = true;
/* Counts since the last order. */
static u64 edges, changes, reactions;
static struct times longest, shortest;
/* Whether the last edge has no reaction yet, and when it was raised. */
static bool is_open;
static u64 before, after;

static struct irq_domain *domain;
static struct hrtimer timer;

static void clear(void)
{
	edges = changes = reactions = 0;
	longest = shortest = (struct times){ .least = U64_MAX };
	is_open = false;
}

static void add(struct times *to, u64 ns)
{
	to->sum += ns;
	to->least = min(to->least, ns);
	to->most = max(to->most, ns);
}

/* Changes the level of the input. Runs with interrupts disabled. */
static void punctual_raises_edge(void)
{
	bool wanted;

	raw_spin_lock(&lock);
	level_in = !level_in;
	wanted = !masked && (type & (level_in ? IRQ_TYPE_EDGE_RISING :
						IRQ_TYPE_EDGE_FALLING));
	if (wanted) {
		edges++;
		is_open = true;
		before = ktime_get_ns();
		/* Until the call below has returned. */
		after = U64_MAX;
	}
	raw_spin_unlock(&lock);
	if (!wanted)
		return;
	generic_handle_domain_irq(domain, LINE_IN);
	raw_spin_lock(&lock);
	after = ktime_get_ns();
	raw_spin_unlock(&lock);
}

static enum hrtimer_restart timer_fires(struct hrtimer *of)
{
	bool again;

	punctual_raises_edge();
	raw_spin_lock(&lock);
	again = left > 1;
	left = again ? left - 1 : 0;
	if (again)
		hrtimer_forward_now(of, period);
	raw_spin_unlock(&lock);
	return again ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

/* The interrupt controller of the input. */

static void line_mask(struct irq_data *data)
{
	WRITE_ONCE(masked, true);
}

static void line_unmask(struct irq_data *data)
{
	WRITE_ONCE(masked, false);
}

static int line_set_type(struct irq_data *data, unsigned int to)
{
	if (to & ~IRQ_TYPE_EDGE_BOTH)
		return -EINVAL;
	WRITE_ONCE(type, to);
	return 0;
}

static struct irq_chip line_irq = {
	.name = "punctual_gpio",
	.irq_mask = line_mask,
	.irq_unmask = line_unmask,
	.irq_set_type = line_set_type,
};

static int domain_map(struct irq_domain *of, unsigned int irq,
		      irq_hw_number_t line)
{
	irq_set_chip_and_handler(irq, &line_irq, handle_simple_irq);
	irq_modify_status(irq, IRQ_NOREQUEST | IRQ_NOAUTOEN, IRQ_NOPROBE);
	return 0;
}

static const struct irq_domain_ops domain_ops = {
	.map = domain_map,
};

/* The chip. */

static int chip_direction(struct gpio_chip *chip, unsigned int line)
{
	return line == LINE_OUT ? GPIO_LINE_DIRECTION_OUT :
				  GPIO_LINE_DIRECTION_IN;
}

static int chip_input(struct gpio_chip *chip, unsigned int line)
{
	return line == LINE_OUT ? -EOPNOTSUPP : 0;
}

static int chip_get(struct gpio_chip *chip, unsigned int line)
{
	switch (line) {
	case LINE_IN:
		return READ_ONCE(level_in);
	case LINE_OUT:
		return READ_ONCE(level_out);
	default:
		return 0;
	}
}

static void chip_set(struct gpio_chip *chip, unsigned int line, int value)
{
	bool to = value;
	bool changed;
	unsigned long flags;
	u64 now;

	if (line != LINE_OUT)
		return;
	raw_spin_lock_irqsave(&lock, flags);
	now = ktime_get_ns();
	changed = to != level_out;
	level_out = to;
	if (changed) {
		changes++;
		if (is_open) {
			is_open = false;
			reactions++;
			add(&longest, now - before);
			add(&shortest, now > after ? now - after : 0);
		}
	}
	changed = changed && wired && to != level_in;
	raw_spin_unlock_irqrestore(&lock, flags);
	if (!changed)
		return;
	local_irq_save(flags);
	punctual_raises_edge();
	local_irq_restore(flags);
}

static int chip_output(struct gpio_chip *chip, unsigned int line, int value)
{
	if (line != LINE_OUT)
		return -EOPNOTSUPP;
	chip_set(chip, line, value);
	return 0;
}

static int chip_to_irq(struct gpio_chip *chip, unsigned int line)
{
	if (line != LINE_IN)
		return -ENXIO;
	return irq_create_mapping(domain, line);
}

static struct gpio_chip chip = {
	.label = "punctual_gpio",
	.owner = THIS_MODULE,
	.base = -1,
	.ngpio = LINES,
	.names = names,
	.get_direction = chip_direction,
	.direction_input = chip_input,
	.direction_output = chip_output,
	.get = chip_get,
	.set = chip_set,
	.to_irq = chip_to_irq,
};

/* The file. */

static int file_show(struct seq_file *file, void *unused)
{
	unsigned long flags;
	u64 counts[3];
	unsigned int due;
	struct times most, least;

	raw_spin_lock_irqsave(&lock, flags);
	due = left;
	counts[0] = edges;
	counts[1] = changes;
	counts[2] = reactions;
	most = longest;
	least = shortest;
	raw_spin_unlock_irqrestore(&lock, flags);
	seq_printf(file, "left %u\nedges %llu\nchanges %llu\nreactions %llu\n",
		   due, counts[0], counts[1], counts[2]);
	seq_printf(file, "longest_sum %llu\nlongest_min %llu\nlongest_max %llu\n",
		   most.sum, most.least, most.most);
	seq_printf(file, "shortest_sum %llu\nshortest_min %llu\nshortest_max %llu\n",
		   least.sum, least.least, least.most);
	return 0;
}

static int file_open(struct inode *inode, struct file *file)
{
	return single_open(file, file_show, NULL);
}

static ssize_t file_write(struct file *file, const char __user *from,
			  size_t length, loff_t *at)
{
	char text[48];
	unsigned int number, us;
	unsigned long flags;

	if (length >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, length))
		return -EFAULT;
	text[length] = '\0';
	if (sscanf(text, "wire %u", &number) == 1 && number <= 1) {
		raw_spin_lock_irqsave(&lock, flags);
		clear();
		wired = number;
		level_in = level_out;
		raw_spin_unlock_irqrestore(&lock, flags);
		return length;
	}
	if (sscanf(text, "edges %u %u", &number, &us) != 2 || !number ||
	    number > MOST_EDGES || us < SHORTEST_US || us > LONGEST_US)
		return -EINVAL;
	hrtimer_cancel(&timer);
	raw_spin_lock_irqsave(&lock, flags);
	clear();
	level_in = false;
	left = number;
	period = ns_to_ktime(us * NSEC_PER_USEC);
	raw_spin_unlock_irqrestore(&lock, flags);
	hrtimer_start(&timer, ns_to_ktime(us * NSEC_PER_USEC), HRTIMER_MODE_REL_HARD);
	return length;
}

static const struct proc_ops file_ops = {
	.proc_open = file_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
	.proc_write = file_write,
};

static void end_domain(void)
{
	irq_dispose_mapping(irq_find_mapping(domain, LINE_IN));
	irq_domain_remove(domain);
}

static int __init gpio_start(void)
{
	int error;

	clear();
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	timer.function = timer_fires;
	domain = irq_domain_add_linear(NULL, LINES, &domain_ops, NULL);
	if (!domain)
		return -ENOMEM;
	error = gpiochip_add_data(&chip, NULL);
	if (error)
		goto no_chip;
	if (proc_create("punctual_gpio", 0600, NULL, &file_ops))
		return 0;
	error = -ENOMEM;
	gpiochip_remove(&chip);
no_chip:
	end_domain();
	return error;
}

static void __exit gpio_end(void)
{
	remove_proc_entry("punctual_gpio", NULL);
	hrtimer_cancel(&timer);
	gpiochip_remove(&chip);
	end_domain();
}

module_init(gpio_start);
module_exit(gpio_end);
MODULE_DESCRIPTION("Raises edges of a GPIO line, and measures the reaction to them");
MODULE_LICENSE("GPL");
