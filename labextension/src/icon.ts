/** The panel's picture. */

import { LabIcon } from '@jupyterlab/ui-components';

// A graphics card: bracket, board with two fans, and connector. `jp-icon3` gives it the colour of its neighbours.
export const icon = new LabIcon({
  name: 'jupyter-gpufit:card',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <path class="jp-icon3" fill="#616161" fill-rule="evenodd" d="M1 4h2v16H1zM4 6h18a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1H4z
    M9 8a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zm0 2.2a1.3 1.3 0 1 1 0 2.6 1.3 1.3 0 0 1 0-2.6z
    M18 8a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zm0 2.2a1.3 1.3 0 1 1 0 2.6 1.3 1.3 0 0 1 0-2.6zM6 18h9v2H6z"/>
</svg>`
});
