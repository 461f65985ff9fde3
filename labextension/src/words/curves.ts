/** What is done with a curve before it is drawn; pure. */

export type Point = [number, number | null]; // null: not a finite number

/** The points in stretches that a line may join: none goes across a cut, or a hole. */
export function runs(points: Point[], cuts: number[]): [number, number][][] {
  const left = [...cuts].sort((a, b) => a - b);
  const found: [number, number][][] = [[]];
  for (const [x, y] of points) {
    const ahead = left.length;
    while (left.length && left[0] < x) {
      left.shift();
    }
    if ((left.length < ahead || y === null) && found[found.length - 1].length) {
      found.push([]);
    }
    if (y !== null) {
      found[found.length - 1].push([x, y]);
    }
  }
  return found.filter(stretch => stretch.length > 0);
}
