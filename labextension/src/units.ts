/** Bytes and durations as units.py writes them. */

export function formatBytes(count: number): string {
  const units = ['TiB', 'GiB', 'MiB', 'KiB'];
  const found = units.findIndex((_, i) => count >= 1024 ** (4 - i));
  return found < 0
    ? `${count} B`
    : `${(count / 1024 ** (4 - found)).toFixed(1)} ${units[found]}`;
}

export function formatDuration(seconds: number): string {
  if (seconds < 10) {
    return `${seconds.toFixed(1)} s`;
  }
  const whole = Math.round(seconds);
  const scales: [number, string, number, string][] = [
    [86400, 'd', 3600, 'h'],
    [3600, 'h', 60, 'min'],
    [60, 'min', 1, 's']
  ];
  for (const [size, unit, smallerSize, smaller] of scales) {
    if (whole >= size) {
      const rest = Math.floor((whole % size) / smallerSize);
      const large = `${Math.floor(whole / size)} ${unit}`;
      return rest > 0 ? `${large} ${rest} ${smaller}` : large;
    }
  }
  return `${whole} s`;
}
