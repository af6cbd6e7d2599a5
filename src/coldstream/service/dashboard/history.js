/** What the page has seen: few enough samples to draw, the old ones further apart than the new. */

const MOST_SAMPLES = 600;
const MOST_MARKS = 200;

export class History {
  samples = [];
  marks = [];

  get last() {
    return this.samples.at(-1);
  }

  /** Takes in an answer, which may repeat what is known. Fewer events than before mean another store: it starts anew. */
  add({ samples, marks }) {
    if (samples.length && this.last && samples.at(-1).events < this.last.events) {
      this.samples = [];
      this.marks = [];
    }
    const known = this.last?.time ?? -Infinity;
    this.samples.push(...samples.filter((sample) => sample.time > known));
    while (this.samples.length > MOST_SAMPLES) this.samples = thinned(this.samples);
    for (const mark of marks) {
      if (!this.marks.some((other) => same(mark, other))) this.marks.push(mark);
    }
    this.marks = this.marks.slice(-MOST_MARKS);
  }

  /** The marks that are on the stretch the samples cover. */
  get marksInSight() {
    const from = this.samples[0]?.events ?? 0;
    return this.marks.filter((mark) => mark.events >= from);
  }
}

function thinned(samples) {
  const middle = samples.length >> 1;
  return samples.filter((_, index) => index >= middle || index % 2 === 0);
}

function same(one, other) {
  return one.events === other.events && one.kind === other.kind && one.text === other.text;
}
