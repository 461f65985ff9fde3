/** One WebSocket to the server extension, open while somebody needs it, and opened again whenever it is lost. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Message } from '../words/schema';

const SOON = 500; // ms until the first try again
const LATEST = 10_000; // ms between two tries in the end

export class Events implements IDisposable {
  constructor(private settings: ServerConnection.ISettings) {
    document.addEventListener('visibilitychange', this._update);
    window.addEventListener('online', this._retry);
  }

  /** Each message as it comes. */
  get arrived(): ISignal<this, Message> {
    return this._arrived;
  }

  /** The connection was made (true) or lost (false). */
  get changed(): ISignal<this, boolean> {
    return this._changed;
  }

  get open(): boolean {
    return this._socket?.readyState === WebSocket.OPEN;
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Keep the connection open until what this returns is disposed; a page in the background lets it rest. */
  hold(): IDisposable {
    this._holders++;
    this._update();
    return new DisposableDelegate(() => {
      this._holders--;
      this._update();
    });
  }

  send(message: object): void {
    if (this.open) {
      this._socket!.send(JSON.stringify(message));
    }
  }

  /** The connection looks dead although nobody closed it: make a new one. */
  drop(): void {
    const socket = this._socket;
    if (socket) {
      this._lost(socket);
      socket.close();
    }
  }

  dispose(): void {
    if (this._disposed) {
      return;
    }
    this._disposed = true;
    document.removeEventListener('visibilitychange', this._update);
    window.removeEventListener('online', this._retry);
    this._close();
    Signal.clearData(this);
  }

  private _update = (): void => {
    const wanted =
      this._holders > 0 &&
      !this._disposed &&
      document.visibilityState !== 'hidden';
    if (wanted && !this._socket) {
      this._connect();
    } else if (!wanted) {
      this._close();
    }
  };

  private _retry = (): void => {
    this._delay = SOON;
    this._update();
  };

  private _connect(): void {
    window.clearTimeout(this._timer);
    const { wsUrl, token, appendToken, WebSocket } = this.settings;
    const url = URLExt.join(wsUrl, 'jupyter-gpufit', 'api', 'events');
    const query =
      appendToken && token ? `?token=${encodeURIComponent(token)}` : '';
    const socket = new WebSocket(url + query);
    this._socket = socket;
    socket.onopen = () => this._changed.emit(true);
    socket.onmessage = event => this._take(socket, String(event.data));
    socket.onclose = () => this._lost(socket);
  }

  private _take(socket: WebSocket, text: string): void {
    if (socket === this._socket) {
      this._delay = SOON; // not when it opens: a proxy may accept and cut at once, again and again
      this._arrived.emit(JSON.parse(text) as Message);
    }
  }

  private _lost(socket: WebSocket): void {
    if (socket !== this._socket) {
      return;
    }
    this._socket = null;
    this._changed.emit(false);
    // Not all browsers of a lab at the same moment, after the server was restarted.
    const delay = this._delay * (0.75 + Math.random() / 2);
    this._delay = Math.min(2 * this._delay, LATEST);
    window.clearTimeout(this._timer);
    this._timer = window.setTimeout(this._update, delay);
  }

  private _close(): void {
    window.clearTimeout(this._timer);
    const socket = this._socket;
    this._socket = null;
    this._delay = SOON;
    if (socket) {
      socket.close();
      this._changed.emit(false);
    }
  }

  private _arrived = new Signal<this, Message>(this);
  private _changed = new Signal<this, boolean>(this);
  private _socket: WebSocket | null = null;
  private _holders = 0;
  private _delay = SOON;
  private _timer = 0;
  private _disposed = false;
}
